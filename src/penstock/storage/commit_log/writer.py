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

from contextlib import suppress

from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.base.invariant import invariant
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
from penstock.storage.commit_log.gathered_writes import NO_EPOCH, GatheredWrites
from penstock.storage.commit_log.segment_room import EPOCH_FRAME_BYTES
from penstock.storage.compiled import put_batch_frame
from penstock.storage.errors import (
    BatchTooLargeForLog,
    LogFollows,
    StorageError,
)
from penstock.storage.index.partition_log import EMPTY, PartitionLog


class LogWriter(GatheredWrites):
    """Appends to the active segment. One per log; used on the loop only."""

    def append(self, partition: PartitionLog, batch: memoryview, header: BatchHeader) -> Offset:
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
        self.index(partition, header, position, size, batch)  # type: ignore[arg-type]  # see index
        return base_offset

    def index(
        self,
        partition: PartitionLog,
        header: BatchHeader,
        position: Position,
        size: int,
        batch: memoryview,
    ) -> None:
        """Record a batch whose frame is at `position`: index, offsets, state of producers.

        The bytes of `batch` are only needed of a marker, which was checked. Sums get no type here:
        the call would be made for each batch.
        """
        if not partition.is_dirty:
            self._mark(partition)
        base_offset = partition.log_end_offset
        timestamp = header.max_timestamp
        partition.bases.append(base_offset)
        partition.positions.append(position)
        partition.sizes.append(size)
        partition.timestamps.append(timestamp)
        end_position = position + size + 48
        self.end_position = partition.last_end_position = end_position  # type: ignore[assignment]
        partition.log_end_offset = base_offset + header.last_offset_delta + 1  # type: ignore[assignment]
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

    def _append_large(
        self, partition: PartitionLog, batch: memoryview, header: BatchHeader
    ) -> Offset:
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

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> Position:
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
        self.end_position = Position(self.end_position + len(frame))
        self._schedule()

    def _build(self, kind: int, key: bytes, payload: bytes, epoch: LeaderEpoch) -> bytes:
        at, gap = self.end_position, self.end_position - self.claim.position
        return build_frame(kind, key, payload, leader_epoch=epoch, position=at, unflushed=gap)

    def _make_room(
        self, payload_bytes: int, reserve_bytes: int, new_epoch: LeaderEpoch = NO_EPOCH
    ) -> bool:
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

    def _before_turn_ends(self) -> None:
        if self._store.active.end - self.end_position < FRAME_HEADER_BYTES <= self._room_end:
            with suppress(StorageError):  # if this fails, an append rolls
                self._roll()

    def _roll(self, new_epoch: LeaderEpoch = NO_EPOCH) -> None:
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
        epoch = max(self.leader_epoch, new_epoch)
        has_marker = old.end - data_end >= FRAME_HEADER_BYTES
        if has_marker:
            marker = self._build(KIND_END, WHOLE_SET, b"", epoch)
            if not self.write(len(marker), [marker]):
                raise self._refusal()
        if epoch > self.leader_epoch:
            self.leader_epoch, self.epoch_start = epoch, data_end if has_marker else old.end
        self.enter_next_segment(data_end)
        self._stage_epoch()

    def close_early(self) -> None:
        """Close the active segment, though there is room in it. If it raises, nothing has changed.

        Raises OutOfSpace, LogFenced, LogFollows.
        """
        if self.is_following:
            raise LogFollows(self._directory)
        self._roll()

    def enter_next_segment(self, data_end: Position) -> None:
        """Switch to the next segment; all frames up to `data_end` and the marker are written."""
        old = self._store.active
        assert old.file is not None
        old.data_end = data_end
        self.end_position = self.written_position = old.end
        self._commit.note_written(old.file, old.end)
        self._store.advance()
        self._set_room()
        self.on_rolled(old)
