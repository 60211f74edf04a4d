"""The written and the synced end of a commit log: one write a turn, group commit, the fence.

    staging ─(once in a loop turn)─► one write ─► page cache ─(sync off the loop)─► disk
    end_position                     written_position              flushed_position

Whoever puts frames into `staging` is in writer.py. A write that finds no space keeps its bytes
staged and is tried again; any other failed write, and every failed sync, ends all writes.

Source: RocketMQ's commit log; "fsyncgate" for the fence. Syncs are in group_commit.py.
"""

import errno
from collections.abc import Callable

from penstock.base.callbacks import nothing
from penstock.base.ids import LeaderEpoch, Position
from penstock.base.invariant import invariant
from penstock.base.ports import Offload, Scheduler
from penstock.frames.claim import Claim
from penstock.storage.commit_log.durable_mark import DurableMark
from penstock.storage.commit_log.group_commit import GroupCommit
from penstock.storage.commit_log.segment_room import segment_room
from penstock.storage.commit_log.segments import Segment, SegmentStore
from penstock.storage.commit_log.space_waiting import SpaceWaiting
from penstock.storage.config import FlushPolicy, LogConfig
from penstock.storage.errors import (
    LogBusy,
    LogFenced,
    StorageError,
)
from penstock.storage.index.partition_log import PartitionLog

NO_EPOCH = LeaderEpoch(-1)


class GatheredWrites:
    """The writes of one log, and up to where they have come. Used on the loop only."""

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
        self.end_position = self.written_position = self.flushed_position = Position(0)
        self.claim = Claim(is_sync_policy=self._is_sync_policy)
        self.is_following = False
        """Whether the log takes only runs of a master: its owner is a slave."""
        self.leader_epoch = NO_EPOCH
        self.epoch_start = self._announced_position = Position(0)
        self._room_end = 0
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

    def start(
        self, position: Position, *, leader_epoch: LeaderEpoch, epoch_start: Position
    ) -> None:
        """Begin to write at `position`, up to which the log is durable."""
        self.end_position = self.written_position = self.flushed_position = position
        self.claim.start(position)
        self._announced_position = position
        self._commit.start(position)
        self.leader_epoch = leader_epoch
        self.epoch_start = epoch_start
        self._set_room()

    @property
    def durable_position(self) -> Position:
        """Position (exclusive) up to which the log is durable in the sense of the policy."""
        return self.flushed_position if self._is_sync_policy else self.written_position

    @property
    def is_durable_once_written(self) -> bool:
        """Whether the policy waits for no sync."""
        return not self._is_sync_policy

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.scheduler.call_soon(self._turn)

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
        self.written_position = self.end_position = Position(self.end_position + length)
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
        self._before_turn_ends()
        if self.written_position != self._announced_position:
            self._announced_position = self.written_position
            self._commit.follow_policy()
            self.on_written()
            if not self._is_sync_policy:
                self.on_durable()
        self.on_turn()

    def _before_turn_ends(self) -> None:
        """Close a segment in which no further frame fits."""

    def request_sync(self) -> None:
        """Sync everything written so far soon, whatever the flush policy."""
        self._commit.request()

    def _note_flushed(self, target: Position) -> None:
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
