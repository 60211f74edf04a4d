"""The commit log of one replica set: the door of the storage room.

    directory/log/       segments: frames of all partitions, in order of arrival
    directory/index/     one sealed index for each closed segment; side file of the active one
    directory/snapshot/  the newest two snapshots of everything that is not in the frames

    append ─► writer (staging, one write a turn, group commit) ─► on_written, on_flushed
    read   ─► reader (page cache on the loop, the rest in the Offload)
    roll   ─► sealed index, snapshot;  retention ─► snapshot, then files go

Use: `SetLog.recover(...)`, set the callbacks, `begin_epoch`, then append and read. Everything is
called on the loop; only `recover` and `close` wait for the disk.

Invariant: flushed_position <= written_position <= end_position, none ever falls; offsets of a
partition go on without holes; what lies below durable_position is there after a crash.

Source: architecture decisions 1, 3, 5; RocketMQ's commit log, Kafka's batches. ADR 0002.
It knows no topics, no replicas and no high watermark: `limit_position` is the caller's business.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.base.invariant import invariant
from penstock.base.ports import Clock, Disk, Offload, Scheduler
from penstock.storage.checkpoint import Checkpointer
from penstock.storage.config import LogConfig
from penstock.storage.errors import OffsetOutOfRange, OutOfSpace
from penstock.storage.frames import KIND_LOG_START, LOG_START_PAYLOAD
from penstock.storage.partition_log import PartitionLog
from penstock.storage.producers import ProducerStates
from penstock.storage.reader import Chunk, LogReader, NeedsDisk, as_platform_error
from penstock.storage.recovery import Progress, Recovery, RecoveryReport
from penstock.storage.retention import RetentionPass, SettingsOf
from penstock.storage.sealed_index import Sealed, encode_index
from penstock.storage.segments import Segment, SegmentStore, index_path
from penstock.storage.timestamps import Examine, InMemory, TimeSearch, TimestampHit
from penstock.storage.writer import LogWriter

__all__ = ["Chunk", "NeedsDisk", "SetLog", "TimestampHit", "Usage"]

T = TypeVar("T")
Found = Callable[[T | None, PlatformError | None], None]


class Usage(NamedTuple):
    """What the log takes and what is left, in bytes."""

    partitions: dict[TopicPartition, int]
    """Bytes of kept batches, without frame headers."""
    segment_bytes: int
    """All segment files, the allocated rest of the active one included."""
    free_bytes: int


class LogNumbers(NamedTuple):
    """What an operator watches of a log beside its positions. Cheap to ask for."""

    segment_count: int
    segment_bytes: int
    free_bytes: int
    snapshot_position: int
    """A start after a crash replays from here."""
    deleted_segments: int
    """By retention and deletes, since the start."""
    has_checkpoint_failed: bool


class WriterCallback:
    """A callback of the writer that the owner sets on the log."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, log: "SetLog", owner: type) -> Callable[..., None]:
        found: Callable[..., None] = getattr(log.writer, self._name)
        return found

    def __set__(self, log: "SetLog", callback: Callable[..., None]) -> None:
        setattr(log.writer, self._name, callback)


class SetLog:
    """One commit log. Made by `recover`.

    The owner sets the callbacks, called on the loop: `on_written()`, `on_flushed()`,
    `on_durable()` after the position of that name has moved, `on_fenced(error)` once.
    """

    on_written = WriterCallback()
    on_flushed = WriterCallback()
    on_durable = WriterCallback()
    on_fenced = WriterCallback()

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        config: LogConfig,
        clock: Clock,
        offload: Offload,
        scheduler: Scheduler,
    ) -> None:
        self.config = config
        self.directory = directory
        self._disk = disk
        self._clock = clock
        self._offload = offload
        self._states = ProducerStates(config.producer_ids_max, clock.wall_ms())
        self._store = SegmentStore(disk, directory, config, offload)
        self.writer = LogWriter(
            self._store,
            directory=directory,
            config=config,
            offload=offload,
            scheduler=scheduler,
        )
        self._reader = LogReader(
            disk=disk,
            directory=directory,
            store=self._store,
            writer=self.writer,
            offload=offload,
            cache_bytes=config.index_cache_bytes,
        )
        self._checkpointer = Checkpointer(
            disk=disk,
            directory=directory,
            config=config,
            store=self._store,
            writer=self.writer,
            states=self._states,
        )
        self._retention = RetentionPass(
            disk=disk,
            directory=directory,
            store=self._store,
            reader=self._reader,
            writer=self.writer,
            checkpointer=self._checkpointer,
        )
        self._retention.trim = self.delete_records
        self._next_serial = 0
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.recovery = RecoveryReport()
        """What the last recovery found."""
        self.append = self.writer.append
        """append(partition, batch, header) -> base offset; see LogWriter.append."""
        self.writer.on_rolled = self._rolled
        self.writer.on_turn = self._turn

    @classmethod
    def recover(  # noqa: PLR0913  the five ports, and where
        cls,
        *,
        disk: Disk,
        directory: str,
        config: LogConfig,
        clock: Clock,
        offload: Offload,
        scheduler: Scheduler,
        progress: Progress | None = None,
    ) -> "SetLog":
        """Open the log in `directory`, making an empty one where there is none. Waits.

        Everything up to the end it comes back with is durable.

        Raises:
            CorruptLog: durable data is damaged or missing; nothing was changed.
            OutOfSpace: there is no room for a first segment, or for the snapshot at the end.
        """
        log = cls(
            disk=disk,
            directory=directory,
            config=config,
            clock=clock,
            offload=offload,
            scheduler=scheduler,
        )
        log.open(log.replay(progress or _no_progress))
        return log

    def replay(self, progress: Progress) -> Recovery:
        """Do the long part of `recover`: read the files. May run on another thread, once.

        Raises what `recover` raises, and what `progress` raises.
        """
        recovery = Recovery(self._disk, self.directory, self.config, self._states)
        with _no_space_is_ours(self.directory):
            recovery.run(progress)
        return recovery

    def open(self, recovery: Recovery) -> None:
        """Take over what `replay` has found; from here on the log can be used. Waits a little."""
        with _no_space_is_ours(self.directory):
            self._take_over(recovery)

    def _take_over(self, recovery: Recovery) -> None:
        self.partitions = recovery.partitions
        self.recovery = recovery.report
        self._next_serial = recovery.next_serial
        self._store.start(recovery.segments, recovery.spares)
        self._checkpointer.epochs = recovery.epochs
        self._checkpointer.start(recovery.position, recovery.side_generation)
        epoch, start = recovery.epochs[-1] if recovery.epochs else (-1, 0)
        self.writer.touched = recovery.touched
        self.writer.start(recovery.position, leader_epoch=epoch, epoch_start=start)
        self._checkpointer.write_now(is_clean=False, partitions=list(self.partitions.values()))

    @property
    def end_position(self) -> int:
        """Position (exclusive) behind the newest appended frame."""
        return self.writer.end_position

    @property
    def written_position(self) -> int:
        """Position (exclusive) up to which the operating system has the bytes."""
        return self.writer.written_position

    @property
    def flushed_position(self) -> int:
        """Position (exclusive) up to which the bytes are on the disk."""
        return self.writer.flushed_position

    @property
    def durable_position(self) -> int:
        """flushed_position under `sync`, written_position under `async`."""
        return self.writer.durable_position

    @property
    def leader_epoch(self) -> int:
        """The epoch that appended frames carry; -1 before the first."""
        return self.writer.leader_epoch

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, start position) of every mastership still known, oldest first."""
        return self._checkpointer.epochs

    @property
    def is_fenced(self) -> bool:
        """Whether a write or sync has failed: no more writes until the log is recovered."""
        return self.writer.fenced is not None

    @property
    def is_full(self) -> bool:
        """Whether appends were refused for want of space and there still is none."""
        return self.writer.is_full

    def open_partition(self, topic_partition: TopicPartition) -> PartitionLog:
        """Return the partition's log, an empty one if there is none yet."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            partition = PartitionLog(topic_partition, self._next_serial, self._states)
            self._next_serial += 1
            self.partitions[topic_partition] = partition
        return partition

    def drop_partition(self, topic_partition: TopicPartition) -> None:
        """Forget a partition; its bytes go with their segments.

        A crash before the next checkpoint brings it back: the owner, who knows which topics
        exist, drops it again.
        """
        partition = self.partitions.pop(topic_partition, None)
        if partition is None:
            return
        self._states.forget_partition(partition.serial)
        self._checkpointer.dropped.append(partition.serial)
        partition.is_dropped = True

    def read(
        self, partition: PartitionLog, offset: int, max_bytes: int, limit_position: int
    ) -> Chunk | NeedsDisk:
        """Return whole batches from the one that holds `offset` on.

        At least one batch, even if it is larger than `max_bytes`, otherwise as many as fit; none
        whose frame ends above `limit_position` (exclusive). An empty chunk means that there is
        nothing to read yet. What is not in memory comes as NeedsDisk.

        Raises:
            OffsetOutOfRange: below the log start or above the log end.
        """
        return self._reader.read(partition, offset, max_bytes, limit_position)

    def offset_at_position(self, partition: PartitionLog, position: int) -> int:
        """Return the first offset whose frame does not lie wholly below `position`.

        That is the high watermark for a confirm position. Waits for the disk where the position
        lies in a closed segment: use `find_offset_at` for positions that may be old.
        """
        return self._reader.offset_at_position(partition, position)

    def find_offset_at(
        self,
        partition: PartitionLog,
        position: int,
        done: Callable[[int | None, PlatformError | None], None],
    ) -> None:
        """Find the same without waiting: `done(offset, error)`, at once or later on the loop."""
        self._reader.find_offset_at(partition, position, done)

    def offset_for_timestamp(
        self,
        partition: PartitionLog,
        timestamp_ms: int,
        limit_position: int,
        done: Found[T],
        *,
        examine: Examine[T],
    ) -> None:
        """Find the first batch with a record at or after `timestamp_ms`, off the loop.

        `examine(hit)` looks into the batch, off the loop too; None sends the search on. `done` is
        called on the loop with what it found, or both None if nothing below the limit is meant.
        """
        search = self._search(partition, limit_position)
        self._reader.off_loop(lambda: search.first_at(timestamp_ms, examine), partial(_found, done))

    def offset_for_max_timestamp(
        self,
        partition: PartitionLog,
        limit_position: int,
        done: Found[T],
        *,
        examine: Examine[T],
    ) -> None:
        """Find the batch with the largest timestamp of the partition; otherwise as above."""
        search = self._search(partition, limit_position)
        self._reader.off_loop(lambda: search.newest(examine), partial(_found, done))

    def _search(self, partition: PartitionLog, limit_position: int) -> TimeSearch:
        topic_partition = partition.topic_partition
        start = partition.log_start_offset
        in_memory = []
        for segment in self._store.closing:
            sealed = (segment.pending or {}).get(topic_partition)
            if sealed is not None and sealed.end_offset > start:
                count = len(sealed.columns.bases)
                in_memory.append(InMemory(segment.base, segment.path, sealed.columns, count))
        active = self._store.active
        columns = partition.columns
        if columns.bases and partition.log_end_offset > start:
            in_memory.append(InMemory(active.base, active.path, columns, len(columns.bases)))
        return TimeSearch(
            self._disk,
            self.directory,
            self._reader.closed(),
            in_memory,
            topic_partition,
            start,
            min(limit_position, self.writer.written_position),
        )

    def delete_records(self, partition: PartitionLog, offset: int) -> int:
        """Raise the log start offset to `offset`; return the new one, which never falls.

        It is durable when `end_position`, as it is on return, is.

        Raises:
            OffsetOutOfRange: `offset` lies above the log end offset or is negative.
            OutOfSpace, LogFenced: the frame that records it can not be written.
        """
        if not 0 <= offset <= partition.log_end_offset:
            raise OffsetOutOfRange(offset, partition.log_start_offset, partition.log_end_offset)
        if offset <= partition.log_start_offset:
            return partition.log_start_offset
        payload = LOG_START_PAYLOAD.pack(offset)
        self.writer.append_frame(KIND_LOG_START, partition.frame_key, payload)
        partition.log_start_offset = offset
        self.writer.dirty.append(partition)
        return offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """Append the start of a mastership; what is appended from now on carries its epoch.

        Beginning the present epoch again changes nothing. Raises OutOfSpace, LogFenced.
        """
        if leader_epoch == self.writer.leader_epoch:
            return
        start = self.writer.begin_epoch(leader_epoch)
        epochs = self._checkpointer.epochs
        invariant(not epochs or epochs[-1][0] < leader_epoch, "leader epochs must rise")
        epochs.append((leader_epoch, start))

    def apply_retention(self, now_ms: int, settings_of: SettingsOf) -> None:
        """Begin to delete what is out of retention, in slices; does nothing while that runs.

        Also forgets producers that have been silent for producer_id_expiration_ms.
        """
        self._states.expire(now_ms - self.config.producer_id_expiration_ms)
        self._retention.begin(self.partitions, now_ms, settings_of)

    def checkpoint(self, then: Callable[[bool], None] | None = None) -> None:
        """Have a snapshot taken soon; `then(worked)` is called on the loop when it is durable."""
        self._checkpointer.request(then)
        self._turn()

    def usage(self) -> Usage:
        """Return what the log takes; asks the file system for its free space."""
        sizes = {key: partition.size_bytes for key, partition in self.partitions.items()}
        segments = sum(segment.end - segment.base for segment in self._store.segments)
        return Usage(sizes, segments, self._disk.free_bytes())

    def numbers(self) -> LogNumbers:
        """Return what the metrics page shows; asks the file system for its free space."""
        segments = self._store.segments
        return LogNumbers(
            segment_count=len(segments),
            segment_bytes=segments[-1].end - segments[0].base,
            free_bytes=self._disk.free_bytes(),
            snapshot_position=self._checkpointer.last_position,
            deleted_segments=self._retention.deleted_segments,
            has_checkpoint_failed=self._checkpointer.last_error is not None,
        )

    def close(self) -> None:
        """Write, sync and snapshot everything, so that the next start has nothing to replay.

        Waits for the disk. A fenced log is only closed.
        """
        if self._store.is_closed:
            return
        self.writer.on_turn = _nothing
        if not self.is_fenced:
            self.writer.finish()
            if self.writer.end_position == self.writer.written_position:
                partitions = list(self.partitions.values())
                self._checkpointer.write_now(is_clean=True, partitions=partitions)
        self._store.close()
        self._checkpointer.close()

    def _turn(self) -> None:
        self._states.now_ms = self._clock.wall_ms()
        if not self._store.is_closed:
            self._checkpointer.poll(self._clock, self._offload)

    def _rolled(self, segment: Segment) -> None:
        """A segment was closed: its index goes from memory to a file, off the loop."""
        pending: dict[TopicPartition, Sealed] = {}
        for partition in self.writer.touched:
            end_offset = partition.log_end_offset
            columns = partition.take_columns()
            if columns.bases and not partition.is_dropped:
                pending[partition.topic_partition] = Sealed(columns, end_offset)
        self.writer.touched = []
        segment.pending = pending
        self._store.closing.append(segment)
        self._checkpointer.request(is_urgent=False)
        path = index_path(self.directory, segment.base)
        base, data_end, disk = segment.base, segment.data_end, self._disk

        def work() -> None:
            disk.replace(path, encode_index(base, data_end, pending))

        self._offload.submit(work, partial(self._sealed, segment))

    def _sealed(self, segment: Segment, _: None, error: BaseException | None) -> None:
        """Let go of the columns. Without the file they are read from the log when needed."""
        if error is not None and not isinstance(error, OSError):
            raise error
        segment.pending = None
        self._store.closing.remove(segment)


@contextmanager
def _no_space_is_ours(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutOfSpace(directory) from error
        raise


def _found(
    done: Found[T],
    hit: T | None,
    error: BaseException | None,
) -> None:
    done(hit, None if error is None else as_platform_error(error))


def _nothing() -> None:
    """Do nothing: no checkpoint begins any more."""


def _no_progress(_done: int, _total: int) -> None:
    """Tell nobody."""
