"""The commit log of one replica set: the public interface of storage.

    directory/log/       segments: frames of all partitions, in order of arrival
    directory/index/     one sealed index for each closed segment; side file of the active one
    directory/snapshot/  the newest two snapshots of everything that is not in the frames

    append ─► writer (staging, one write a turn, group commit) ─► on_written, on_flushed
    read   ─► reader (page cache on the loop, the rest in the Offload)
        roll   ─► sealed index, snapshot;  retention ─► snapshot, then files go
    replicas ─► runs of frames, truncation, copies of a base: replicable.py

Use: `SetLog.recover(...)`, set the callbacks, `begin_epoch`, then append and read. Everything is
called on the loop; only `recover` and `close` wait for the disk.

Invariant: flushed_position <= written_position <= end_position, and none ever falls; offsets of a
partition are contiguous; bytes below durable_position survive a crash.

Source: RocketMQ's commit log, Kafka's batches. ADR 0002.
It knows no topics, no replicas and no high watermark: the caller gives `limit_position`.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, Position, TopicPartition
from penstock.base.invariant import invariant
from penstock.base.ports import Lane
from penstock.frames.frames import KIND_LOG_START, LOG_START_PAYLOAD
from penstock.storage.commit_log.parts import LogParts
from penstock.storage.commit_log.pins import PinReport
from penstock.storage.commit_log.usage import LogNumbers
from penstock.storage.errors import LogBusy, OffsetOutOfRange
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import NO_MORE, Chunk
from penstock.storage.read.needs_disk import (
    Loaded,
    NeedsDisk,
    Turn,
    as_platform_error,
    at_once,
)
from penstock.storage.recover.scrub import Done as ScrubDone
from penstock.storage.recover.scrub import scrub
from penstock.storage.replicate.replicable import ReplicableLog
from penstock.storage.stores.port import (
    EpochEnd,
    EpochEndFound,
    Examine,
    TimeSearch,
    TimestampHit,
)
from penstock.storage.stores.rules import SettingsOf

__all__ = ["NO_MORE", "Chunk", "Loaded", "NeedsDisk", "SetLog", "TimestampHit"]

T = TypeVar("T")
Found = Callable[[T | None, PlatformError | None], None]


class SetLog(ReplicableLog):
    """One commit log. Made by `recover`; for the callbacks see OpenLog."""

    def _use(self, parts: LogParts) -> None:
        super()._use(parts)
        self.transactions = parts.transactions
        """The transactions of its partitions; another object after the log was opened anew."""
        self.splitting = parts.splitting
        """What is to go to extent files; another object after the log was opened anew."""
        parts.segment_retention.trim = self.delete_records

    @property
    def end_position(self) -> Position:
        """Position (exclusive) behind the newest appended frame."""
        return self.writer.end_position

    @property
    def written_position(self) -> Position:
        """Position (exclusive) up to which the operating system has the bytes."""
        return self.writer.written_position

    @property
    def flushed_position(self) -> Position:
        """Position (exclusive) up to which the bytes are on the disk."""
        return self.writer.flushed_position

    @property
    def durable_position(self) -> Position:
        """flushed_position under `sync`, written_position under `async`."""
        return self.writer.durable_position

    @property
    def is_durable_once_written(self) -> bool:
        """Whether the flush policy waits for no sync: `async`."""
        return self.writer.is_durable_once_written

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The epoch that appended frames carry; -1 before the first."""
        return self.writer.leader_epoch

    @property
    def epochs(self) -> list[tuple[LeaderEpoch, Position]]:
        """(leader epoch, start position) of every mastership still known, oldest first."""
        return self._checkpointer.epochs

    @property
    def is_full(self) -> bool:
        """Whether appends are refused because there is no space for the next segment."""
        return self.writer.space.is_full

    @property
    def slice_bytes(self) -> int:
        """Bytes to append in one loop turn at most, so that the next file is allocated in time."""
        return self.config.segment_bytes // 4

    def open_partition(self, topic_partition: TopicPartition) -> PartitionLog:
        """Return the partition's log, an empty one if there is none yet."""
        return self.parts.open_partition(topic_partition)

    def drop_partition(self, topic_partition: TopicPartition) -> None:
        """Forget a partition; its bytes are deleted with their segments.

        After a crash before the next checkpoint the partition is there again, and the owner, which
        knows the existing topics, has to drop it again.
        """
        partition = self.partitions.pop(topic_partition, None)
        if partition is None:
            return
        self._states.forget_partition(partition.serial)
        self._checkpointer.dropped.append(partition.serial)
        self.parts.appender.forget(partition)
        partition.is_dropped = True

    def read(
        self, partition: PartitionLog, offset: Offset, max_bytes: int, limit_position: Position
    ) -> Chunk | NeedsDisk:
        """Return whole batches, the first being the one that holds `offset`.

        At least one batch, even if it is larger than `max_bytes`, otherwise as many as fit; none
        whose frame ends above `limit_position` (exclusive). An empty chunk means that there is
        nothing to read yet; NeedsDisk, that the page cache does not have the beginning.

        Raises:
            OffsetOutOfRange: below the log start or above the log end.
        """
        return self._reader.read(partition, offset, max_bytes, limit_position)

    def known_offset_at(self, partition: PartitionLog, position: Position) -> Offset | None:
        """Return the first offset whose frame does not lie wholly below `position`.

        For a confirm position that is the high watermark. None if memory can not tell, as the
        position lies in a closed segment: use `find_offset_at` then.
        """
        return self._reader.known_offset_at(partition, position)

    def find_offset_at(
        self,
        partition: PartitionLog,
        position: Position,
        done: Callable[[Offset | None, PlatformError | None], None],
        turn: Turn = at_once,
    ) -> None:
        """Find the same without waiting: `done(offset, error)`, at once or later on the loop."""
        self._reader.find_offset_at(partition, position, done, turn)

    def offset_for_timestamp(
        self,
        partition: PartitionLog,
        timestamp_ms: int,
        limit_position: Position,
        done: Found[T],
        *,
        examine: Examine[T],
    ) -> None:
        """Find the first batch with a record at or after `timestamp_ms`, off the loop.

        `examine(hit)` reads the batch, off the loop too; if it returns None the search continues.
        `done(found, error)` is called on the loop; both are None if there is no such batch.
        """
        search = self._search(partition, limit_position)
        self._reader.off_loop(
            lambda: search.first_at(timestamp_ms, examine), partial(_found, done), Lane.READ
        )

    def offset_for_max_timestamp(
        self,
        partition: PartitionLog,
        limit_position: Position,
        done: Found[T],
        *,
        examine: Examine[T],
    ) -> None:
        """Find the batch with the largest timestamp of the partition; otherwise as above."""
        search = self._search(partition, limit_position)

        def newest() -> T | None:
            hit = search.newest()
            return None if hit is None else examine(hit)

        self._reader.off_loop(newest, partial(_found, done), Lane.READ)

    def _search(self, partition: PartitionLog, limit_position: Position) -> TimeSearch:
        newest = self.parts.commit_log.search(partition, limit_position)
        return self.parts.older.search(partition, newest, limit_position)

    def find_epoch_end(
        self,
        partition: PartitionLog,
        leader_epoch: LeaderEpoch,
        done: EpochEndFound,
        turn: Turn = at_once,
    ) -> None:
        """Find where the partition's records of a mastership end.

        Calls `done(end, error)`, at once or later; both are None if no record of that mastership
        or of an earlier one is kept.
        """
        older = self.parts.older

        def found(end: EpochEnd | None, error: PlatformError | None) -> None:
            start = partition.commit_log_start_offset
            if error is not None or (end is not None and end.end_offset > start):
                done(end, error)
            else:
                older.find_epoch_end(partition, leader_epoch, partial(joined, end))

        def joined(
            end: EpochEnd | None, below: EpochEnd | None, error: PlatformError | None
        ) -> None:
            if below is None and end is not None:
                # All that is kept is newer, also what older stores have.
                end = end._replace(end_offset=min(end.end_offset, partition.log_start_offset))
            # Up to its end the older stores have nothing newer: the log knows of masterships
            # without a batch, and those stores do not.
            is_all = below is not None and below.end_offset >= partition.commit_log_start_offset
            done(end if below is None or (is_all and end is not None) else below, error)

        self.parts.commit_log.find_epoch_end(partition, leader_epoch, found, turn)

    def delete_records(self, partition: PartitionLog, offset: Offset) -> Offset:
        """Raise the log start offset to `offset`; return the log start, which never falls.

        The change is durable once the present `end_position` is. It is recorded for the other
        members too where retention has raised the log start here beyond it: theirs may be lower.

        Raises:
            OffsetOutOfRange: `offset` is above the log end offset or negative.
            OutOfSpace, LogFenced: the frame that records the change can not be written.
        """
        if not 0 <= offset <= partition.log_end_offset:
            raise OffsetOutOfRange(offset, partition.log_start_offset, partition.log_end_offset)
        if offset <= partition.told_start:
            return partition.log_start_offset
        payload = LOG_START_PAYLOAD.pack(offset)
        self.writer.append_frame(KIND_LOG_START, partition.frame_key, payload)
        partition.tell_log_start(offset)
        self.writer.dirty.append(partition)
        return partition.log_start_offset

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Append the start of a mastership; frames appended from now on carry its epoch.

        The log stops following a master. Beginning the present epoch again appends nothing.
        Raises OutOfSpace, LogFenced, LogBusy.
        """
        if self.parts.appender.is_fitting:
            raise LogBusy(self.directory)
        if leader_epoch == self.writer.leader_epoch:
            self.writer.lead()
            return
        start = self.writer.begin_epoch(leader_epoch)
        self.parts.appender.lead()
        epochs = self._checkpointer.epochs
        invariant(not epochs or epochs[-1][0] < leader_epoch, "leader epochs must rise")
        epochs.append((leader_epoch, start))

    def apply_retention(self, now_ms: int, settings_of: SettingsOf) -> None:
        """Start a retention pass, which runs in slices; does nothing while one is running.

        Also forgets producers that have not written for producer_id_expiration_ms.
        """
        self._states.expire(now_ms - self.config.producer_id_expiration_ms)
        self.parts.retention.begin(self.partitions, now_ms, settings_of)

    @property
    def pins(self) -> PinReport:
        """Which partitions kept which segment in the last complete retention pass."""
        return self.parts.segment_retention.pins

    def scrub(self, position: Position, max_bytes: int, done: ScrubDone) -> None:
        """Check about `max_bytes` of what is flushed, from `position` on.

        `position` is FROM_START or the `next_position` of the slice before. Calls
        `done(found, error)` on the loop. Damage in the log is reported as CorruptFrame and to
        `on_damage`. Other errors: LogBusy, ReadFailed.
        """
        disk, directory = self._disk, self.directory
        scrub(disk, directory, self.parts, position=position, max_bytes=max_bytes, done=done)

    def checkpoint(self, then: Callable[[bool], None] | None = None) -> None:
        """Request a snapshot; `then(worked)` is called on the loop when it is durable."""
        self._checkpointer.request(then)
        self.parts.tick()

    def numbers(self) -> LogNumbers:
        """Return the numbers for metrics; asks the file system for its free space."""
        segments = self._store.segments
        return LogNumbers(
            file_count=len(segments),
            file_bytes=sum(segment.end - segment.base for segment in segments),
            free_bytes=self._disk.free_bytes(),
            snapshot_position=self._checkpointer.saved_position,
            deleted_files=self.parts.segment_retention.deleted_segments,
            closed_early=self.parts.segment_retention.early.count,
            has_checkpoint_failed=self._checkpointer.last_error is not None,
        )


def kept_bytes(log: SetLog, partition: PartitionLog) -> int:
    """Return the bytes that are kept of a partition, in all stores of its log; about."""
    return partition.size_bytes + log.parts.older.size_bytes(partition)


def _found(
    done: Found[T],
    hit: T | None,
    error: BaseException | None,
) -> None:
    done(hit, None if error is None else as_platform_error(error))
