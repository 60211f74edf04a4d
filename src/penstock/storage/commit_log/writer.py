"""The writing end of a commit log: append, gathered writes, group commit, roll, fence.

    append ─► staging ─(once in a loop turn)─► one write ─► page cache ─(sync off the loop)─► disk
              end_position                     written_position              flushed_position

    flushed_position <= written_position <= end_position, and none of them ever falls

The bytes between written_position and end_position are in `staging`, at their distance from
written_position. So a batch is copied once, and the caller may reuse its memory when `append`
returns. A large batch is not copied: it is written at once, after the staged bytes.

Space: the next file is allocated ahead of need (segments.py). If there is none, the append that
needs one is refused and changes nothing. A write that finds no space keeps its bytes staged and is
tried again (space_waiting.py).

Any other failed write, and every failed sync, fences the log for good: after a failed fsync the
kernel may report success for pages that it has dropped.

Source: RocketMQ's commit log; "fsyncgate" for the fence. Syncs are in group_commit.py.
"""

import errno
from collections.abc import Callable
from contextlib import suppress

from penstock.base.callbacks import nothing
from penstock.base.ids import LeaderEpoch
from penstock.base.invariant import invariant
from penstock.base.ports import Offload, Scheduler
from penstock.frames.claim import Claim
from penstock.frames.frames import (
    BATCH_COVERED_BYTES,
    EPOCH_PAYLOAD,
    FRAME_HEADER_BYTES,
    KIND_END,
    KIND_EPOCH,
    WHOLE_SET,
    build_batch_head,
    build_frame,
)
from penstock.record.batch import TRANSACTIONAL_OR_CONTROL, BatchHeader
from penstock.storage.commit_log.durable_mark import DurableMark
from penstock.storage.commit_log.group_commit import GroupCommit
from penstock.storage.commit_log.segment_room import EPOCH_FRAME_BYTES, segment_room
from penstock.storage.commit_log.segments import Segment, SegmentStore
from penstock.storage.commit_log.space_waiting import SpaceWaiting
from penstock.storage.compiled import put_batch_frame
from penstock.storage.config import FlushPolicy, LogConfig
from penstock.storage.errors import (
    BatchTooLargeForLog,
    LogBusy,
    LogFenced,
    LogFollows,
    StorageError,
)
from penstock.storage.index.partition_log import EMPTY, PartitionLog


class LogWriter:
    """Appends to the active segment. One per log; used on the loop only."""

    def __init__(
        self,
        store: SegmentStore,
        *,
        directory: str,
        config: LogConfig,
        offload: Offload,
        scheduler: Scheduler,
        mark: DurableMark,
    ) -> None:
        self._store = store
        self._directory = directory
        self.scheduler = scheduler
        self._staging = bytearray(config.staging_bytes)
        self._view = memoryview(self._staging)
        self._large_bytes = config.large_batch_bytes
        self._room = segment_room(config)
        self._is_sync_policy = config.flush_policy is FlushPolicy.SYNC
        self.end_position = self.written_position = self.flushed_position = 0
        self.claim = Claim(is_sync_policy=self._is_sync_policy)
        self.is_following = False
        """Whether the log takes only runs of a master: its owner is a slave."""
        self.leader_epoch = LeaderEpoch(-1)
        self.epoch_start = self._room_end = self._announced_position = 0
        self._is_scheduled = False
        self._commit = GroupCommit(
            config=config,
            guard=store.guard,
            offload=offload,
            scheduler=scheduler,
            on_synced=self._note_flushed,
            on_failed=self.fence,
            mark=mark,
        )
        self.space = SpaceWaiting(
            store, scheduler, config.space_check_ms, write=self._write_again, on_room=self._has_room
        )
        self.fenced: StorageError | None = None
        """Why nothing can be appended any more: LogFenced, or LogBusy while it is realigned."""
        self.dirty: list[PartitionLog] = []
        """Partitions changed since the last snapshot; one may be listed twice."""
        self.touched: list[PartitionLog] = []
        """Partitions with batches in the active segment."""
        self.on_written: Callable[[], None] = nothing
        self.on_flushed: Callable[[], None] = nothing
        self.on_durable: Callable[[], None] = nothing
        self.on_fenced: Callable[[Exception], None] = nothing
        self.on_rolled: Callable[[Segment], None] = nothing
        self.on_turn: Callable[[], None] = nothing
        self.on_room: Callable[[], None] = nothing
        """Called when a slave's append that had to wait may be tried again."""
        store.on_prepared = self.space.prepared

    def start(self, position: int, *, leader_epoch: LeaderEpoch, epoch_start: int) -> None:
        """Begin to write at `position`, up to which the log is durable."""
        self.end_position = self.written_position = self.flushed_position = position
        self.claim.start(position)
        self._announced_position = position
        self._commit.start(position)
        self.leader_epoch = leader_epoch
        self.epoch_start = epoch_start
        self._set_room()

    @property
    def durable_position(self) -> int:
        """Position (exclusive) up to which the log is durable in the sense of the policy."""
        return self.flushed_position if self._is_sync_policy else self.written_position

    def append(self, partition: PartitionLog, batch: memoryview, header: BatchHeader) -> int:
        """Append one checked batch; return the base offset that it was given.

        Base offset and leader epoch are written into the copy; the caller may reuse `batch` at
        once.

        Raises:
            OutOfSpace: nothing has changed; try again later, for SegmentNotReady very soon.
            LogFenced: the log takes no more writes.
            BatchTooLargeForLog: it never fits.
        """
        size = len(batch)
        frame_bytes = size + 48
        end = self.end_position + frame_bytes
        if end > self._room_end or size >= self._large_bytes:
            if self._make_room(size, self._room.control_bytes):
                return self._append_large(partition, batch, header)
            end = self.end_position + frame_bytes
        position = end - frame_bytes
        base_offset = partition.log_end_offset
        put_batch_frame(
            self._view,
            position - self.written_position,
            batch,
            partition.frame_key,
            self.leader_epoch,
            position,
            position - self.claim.position,
            base_offset,
        )
        self.index(partition, header, position, size, batch)
        return base_offset

    def index(
        self,
        partition: PartitionLog,
        header: BatchHeader,
        position: int,
        size: int,
        batch: memoryview,
    ) -> None:
        """Record a batch whose frame is at `position`: index, offsets, state of producers.

        The bytes of `batch` are only needed of a marker, which was checked.
        """
        if not partition.is_dirty:
            self._mark(partition)
        base_offset = partition.log_end_offset
        timestamp = header.max_timestamp
        partition.bases.append(base_offset)
        partition.positions.append(position)
        partition.sizes.append(size)
        partition.timestamps.append(timestamp)
        self.end_position = partition.last_end_position = position + size + 48
        partition.log_end_offset = base_offset + header.last_offset_delta + 1
        partition.size_bytes += size
        if timestamp > partition.max_timestamp:  # noqa: PLR1730  a call of max() costs more
            partition.max_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_OR_CONTROL:
            partition.add_transactional(header, base_offset, position, batch)
        elif header.producer_id >= 0:
            partition.producers.record(header, base_offset)
        if not self._is_scheduled:
            self._schedule()

    def _mark(self, partition: PartitionLog) -> None:
        partition.is_dirty = True
        self.dirty.append(partition)
        if partition.bases is EMPTY:
            partition.open_columns()
            self.touched.append(partition)

    def _append_large(self, partition: PartitionLog, batch: memoryview, header: BatchHeader) -> int:
        """Write the staged bytes and the batch in one call; on failure the state is unchanged."""
        size, position, base_offset = len(batch), self.end_position, partition.log_end_offset
        unflushed = position - self.claim.position
        head = build_batch_head(
            batch, partition.frame_key, self.leader_epoch, position, unflushed, base_offset
        )
        if not self.write(size + FRAME_HEADER_BYTES, [head, batch[BATCH_COVERED_BYTES:]]):
            raise self._refusal()
        self.index(partition, header, position, size, batch)
        invariant(self.end_position == self.written_position, "positions part after a large batch")
        return base_offset

    def append_frame(self, kind: int, key: bytes, payload: bytes) -> None:
        """Append a frame of another kind. Raises as `append` does."""
        if self.end_position + FRAME_HEADER_BYTES + len(payload) > self._room_end:
            self._make_room(len(payload), 0)
        self._stage_frame(kind, key, payload)

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> int:
        """Append the frame that starts an epoch; return the position at which the epoch starts.

        A full segment is closed under the new epoch: an earlier master may have closed it at
        another place.
        """
        known = self.leader_epoch
        invariant(leader_epoch > known, "leader epoch did not rise", new=leader_epoch, old=known)
        was_following = self.is_following
        self.lead()
        try:
            if self.end_position + EPOCH_FRAME_BYTES > self._room_end:
                self._make_room(EPOCH_PAYLOAD.size, 0, leader_epoch)
        except StorageError:
            if was_following:
                self.follow()
            raise
        if self.leader_epoch != leader_epoch:
            self.leader_epoch, self.epoch_start = leader_epoch, self.end_position
            self._stage_epoch()
        return self.epoch_start

    def _stage_epoch(self) -> None:
        payload = EPOCH_PAYLOAD.pack(self.leader_epoch, self.epoch_start)
        self._stage_frame(KIND_EPOCH, WHOLE_SET, payload)

    def follow(self) -> None:
        """Take only runs of a master from now on; staged bytes are still written."""
        self.write_staged()
        self.is_following = True
        self._set_room()

    def lead(self) -> None:
        """Take appends again; the opposite of `follow`."""
        if not self.is_following:
            return
        self.is_following = False
        self._store.set_capacity(None)
        self._set_room()

    def _stage_frame(self, kind: int, key: bytes, payload: bytes) -> None:
        frame = self._build(kind, key, payload, self.leader_epoch)
        at = self.end_position - self.written_position
        self._view[at : at + len(frame)] = frame
        self.end_position += len(frame)
        self._schedule()

    def _build(self, kind: int, key: bytes, payload: bytes, epoch: int) -> bytes:
        at, gap = self.end_position, self.end_position - self.claim.position
        return build_frame(kind, key, payload, leader_epoch=epoch, position=at, unflushed=gap)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.scheduler.call_soon(self._turn)

    def _make_room(self, payload_bytes: int, reserve_bytes: int, new_epoch: int = -1) -> bool:
        """Make sure that a frame fits; return whether it has to be written without staging.

        The last `reserve_bytes` of the segment stay free. `new_epoch`: see `_roll`.
        """
        if self.fenced is not None:
            raise self.fenced
        if self.is_following:
            raise LogFollows(self._directory)
        frame_bytes = payload_bytes + FRAME_HEADER_BYTES
        if payload_bytes > self._room.payload_bytes_max:
            raise BatchTooLargeForLog(payload_bytes, self._room.payload_bytes_max)
        if self.end_position + frame_bytes > self._store.active.end - reserve_bytes:
            self._store.fit_next(payload_bytes + self._room.overhead)
            self._roll(new_epoch)
        is_large = payload_bytes >= self._large_bytes
        if is_large and self._store.active.file is not None:
            return True
        if self.end_position - self.written_position + frame_bytes > len(self._staging):
            self.write_staged()
            if self.end_position - self.written_position + frame_bytes > len(self._staging):
                raise self._refusal()
        return False

    def _roll(self, new_epoch: int = -1) -> None:
        """Close the active segment and switch to the next one. If it raises, nothing has changed.

        `new_epoch` begins with the end marker or, if there is no room for one, with the next
        segment.
        """
        self.write_staged()
        store, old = self._store, self._store.active
        has_no_file = store.next_file is None and store.prepare_error is not None
        if has_no_file or self.fenced is not None or self.end_position != self.written_position:
            raise self._refusal()
        data_end = self.end_position
        epoch = LeaderEpoch(max(self.leader_epoch, new_epoch))
        has_marker = old.end - data_end >= FRAME_HEADER_BYTES
        if has_marker:
            marker = self._build(KIND_END, WHOLE_SET, b"", epoch)
            if not self.write(len(marker), [marker]):
                raise self._refusal()
        if epoch > self.leader_epoch:
            self.leader_epoch, self.epoch_start = epoch, data_end if has_marker else old.end
        self.enter_next_segment(data_end)
        self._stage_epoch()

    def enter_next_segment(self, data_end: int) -> None:
        """Switch to the next segment; all frames up to `data_end` and the marker are written."""
        old = self._store.active
        assert old.file is not None
        old.data_end = data_end
        self.end_position = self.written_position = old.end
        self._commit.note_written(old.file, old.end)
        self._store.advance()
        self._set_room()
        self.on_rolled(old)

    def _refusal(self) -> Exception:
        return self.space.refusal(self._directory) if self.fenced is None else self.fenced

    def _set_room(self) -> None:
        staging_end = self.written_position + len(self._staging)
        room_end = min(self._store.active.end - self._room.control_bytes, staging_end)
        is_closed = self.fenced is not None or self.is_following
        self._room_end = -1 if is_closed else room_end

    def write_staged(self) -> None:
        """Write the staged bytes, if they can be written now."""
        if self.end_position != self.written_position:
            self.write(0, [])

    def write(self, length: int, buffers: list[bytes | bytearray | memoryview]) -> bool:
        """Write the staged bytes, then `buffers` of `length` bytes; return whether it worked.

        `end_position` is advanced by `length`.
        """
        active = self._store.active
        file = active.file
        if file is None or self.fenced is not None:
            return False
        staged = self.end_position - self.written_position
        if staged:
            buffers = [self._view[:staged], *buffers]
        try:
            file.write(self.written_position - active.base, buffers)
        except OSError as error:
            self._write_failed(error)
            return False
        self.space.has_write_failed = False
        self.written_position = self.end_position = self.end_position + length
        self._commit.note_written(file, self.written_position)
        self._set_room()
        if length:
            self._schedule()
        return True

    def _write_failed(self, error: OSError) -> None:
        if error.errno != errno.ENOSPC:
            self.fence(f"write failed: {error}")
            return
        self.space.write_failed()

    def _turn(self) -> None:
        """Write, start the sync and notify the owner; runs once in a loop turn with appends."""
        self._is_scheduled = False
        self.write_staged()
        if self._store.active.end - self.end_position < FRAME_HEADER_BYTES <= self._room_end:
            with suppress(StorageError):  # no further frame fits; if this fails, an append rolls
                self._roll()
        if self.written_position != self._announced_position:
            self._announced_position = self.written_position
            self._commit.follow_policy()
            self.on_written()
            if not self._is_sync_policy:
                self.on_durable()
        self.on_turn()

    def request_sync(self) -> None:
        """Sync everything written so far soon, whatever the flush policy."""
        self._commit.request()

    def _note_flushed(self, target: int) -> None:
        flushed, written = self.flushed_position, self.written_position
        invariant(flushed <= target <= written, "flushed position out of order", target=target)
        self.claim.flushed(target)
        self.flushed_position = target
        self.on_flushed()
        if self._is_sync_policy:
            self.on_durable()
        self.on_turn()
        self.on_room()

    def _write_again(self) -> bool:
        """Write what the full disk did not take; return whether nothing of it is left."""
        self._turn()
        return self.end_position == self.written_position

    def _has_room(self) -> None:
        """Let appends use the room that there is now."""
        self._set_room()
        if self.end_position != self.written_position:
            self._schedule()
        self.on_room()

    def fence(self, reason: str) -> None:
        """Refuse all writes from now on; durable data can still be read."""
        if self.fenced is not None:
            return
        self.fenced = LogFenced(reason)
        self._room_end = -1
        self._commit.stop()
        self.space.stop()
        self.on_fenced(self.fenced)

    def halt(self) -> None:
        """Take no more writes, without an error: the log is about to be opened anew."""
        self.fenced = LogBusy(self._directory)
        self._room_end = -1
        self.on_written = self.on_flushed = self.on_durable = self.on_room = self.on_turn = nothing
        self.on_fenced = nothing
        self._commit.stop()
        self.space.stop()

    def settle(self, action: Callable[[], None]) -> None:
        """Write and sync everything, and run `action` when no sync is under way any more."""
        self.write_staged()
        self._commit.settle(action)

    def finish(self) -> bool:
        """Write and sync everything on the calling thread, for a clean close. Raises LogFenced.

        Returns whether all of it is certainly durable: False while a sync is under way (`settle`).
        """
        self.write_staged()
        if self.fenced is not None:
            raise self.fenced
        self.space.stop()
        try:
            is_certain = self._commit.sync_now()
        except OSError as error:
            self.fence(f"sync failed: {error}")
            raise LogFenced(str(error)) from error
        if is_certain:
            self._note_flushed(self.written_position)
        return is_certain
