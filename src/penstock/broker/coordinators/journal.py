"""An internal topic as the journal of a coordinator, stored in the log like any data.

    coordinator ── append(records) ──► batch in a partition ──► confirmed ──► done(None)
    start       ── load()          ──► every record, oldest first     ──► finish_loading
    with a writer: a batch of its transaction, verified like any; its marker comes from elsewhere
    rewrite     ── snapshot ──► batches at the end ──► confirmed ──► trim all older ones

There is no compaction yet. So a partition that has grown, or that keeps too much of the log from
being deleted, is rewritten (rewrite.py): its live records are appended again in slices, and once
they are confirmed everything before them is trimmed. After a crash or an election in between both
copies remain; they replay to the same state. What was written by a transaction that was open when
the rewrite began is not trimmed.

Only the master of the partition's set appends; every write waits for the set's policy, as acks=all
does. A write during which the mastership ends is OVERTAKEN, and its outcome is unknown.

Source: Kafka `PartitionWriter` and `CoordinatorLoaderImpl` (answer after the append is replicated);
the rewrite is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from penstock.broker.append.transactional import check_writer, note_opened
from penstock.broker.broker import Broker
from penstock.broker.coordinators.reasons import reason_of
from penstock.broker.coordinators.rewrite import OnDone, Rewriter
from penstock.broker.errors import BrokerError
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import NO_TIMESTAMP, JournalRecord, UnreadRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.record.batch import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from penstock.record.build import Record, build_batch
from penstock.record.marker import read_marker
from penstock.record.read import DecodedRecord, iter_records
from penstock.replication.errors import ReplicationError
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk
from penstock.storage.errors import LogFenced, StorageError

WRITE_TIMEOUT_MS = 30_000
LOAD_BYTES = 128 << 10
"""Bytes read in one loop iteration, unless one batch is larger: some 1,500 positions."""
LOAD_TOGETHER = 500
"""Records replayed in one iteration, 5 us each; one commit may write 100,000 in a batch."""
LOAD_BYTES_WEIGHED = 100
"""Bytes of a value that count as one more record: one may have thousands of partitions."""

NEVER_MS = 1 << 62

Done = Callable[[Unwritten | None], None]
OnLoaded = Callable[[PlatformError | None], None]


class Receiver(Protocol):
    """Takes what is loaded from a partition, in log order."""

    def record(self, record: UnreadRecord) -> None:
        """Take a record."""

    def pending(self, writer: Writer, record: UnreadRecord) -> None:
        """Take a record of a transaction."""

    def ended(self, writer: Writer, *, is_commit: bool) -> None:
        """Take a marker."""

    def unread_batch(self, reason: str) -> None:
        """Note a batch that cannot be read."""


class JournalWrite:
    """A batch of a coordinator's records that waits to be confirmed.

    A write that takes too long is reported as LATE, and again with its outcome when that is
    known: it is in the log and may still be confirmed.
    """

    __slots__ = ("_done", "_is_open", "_is_overdue", "deadline_ms")

    def __init__(self, done: Done, deadline_ms: int) -> None:
        self._done = done
        self._is_open = True
        self._is_overdue = False
        self.deadline_ms = deadline_ms

    def complete(self) -> None:
        self._close(None)

    def expire(self) -> bool:
        if self._is_open and not self._is_overdue:
            self._is_overdue = True
            self._done(Unwritten.LATE)
        return self._is_open

    def fail(self) -> None:
        self._close(Unwritten.FAILED)

    def refuse(self, error: ReplicationError) -> None:
        self._close(reason_of(error))

    def shrunk(self, in_sync_count: int) -> None:
        """Ignore a smaller set: the live state must agree with the log, where the write remains."""

    def _close(self, error: Unwritten | None) -> None:
        if self._is_open:
            self._is_open = False
            self._done(error)


class InternalTopicJournal:
    """The journal port of one kind of coordinator, over the partitions of its topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._rewriter = Rewriter(broker.scheduler, self._append)

    @property
    def partitions(self) -> Sequence[HostedPartition | None]:
        """The internal topic's partitions on this node; empty until the topic exists."""
        topic = self._broker.partitions.by_name.get(self.topic.encode())
        return () if topic is None else topic.partitions

    def leader_epoch_of(self, partition: int) -> LeaderEpoch:
        """Return the leader epoch of a partition's replica set; -1 if the partition is not here."""
        partitions = self.partitions
        hosted = partitions[partition] if partition < len(partitions) else None
        return NO_LEADER_EPOCH if hosted is None else hosted.member.leader_epoch

    def append(
        self,
        partition: int,
        records: Sequence[JournalRecord],
        done: Done,
        writer: Writer | None = None,
    ) -> None:
        """Append in one batch; `done(None)` once it is confirmed, or `done(error)`.

        After `done(LATE)` it is called again, when the write is confirmed or lost. The first batch
        of a writer's transaction needs a guard (append/transactional.py).
        """
        partitions = self.partitions
        hosted = partitions[partition] if partition < len(partitions) else None
        if hosted is None:
            done(Unwritten.NOT_HERE)
            return
        try:
            self._append(hosted, records, done, writer)
        except (StorageError, ReplicationError, BrokerError) as error:
            done(reason_of(error))

    def wait_for_end(self, hosted: HostedPartition, done: Done) -> None:
        """Call `done` as `append` does, for what is at the log's end now; it is never late."""
        member = hosted.member
        member.waiting_for_all.park(member.log.end_position, JournalWrite(done, NEVER_MS))

    def _append(
        self,
        hosted: HostedPartition,
        records: Sequence[JournalRecord],
        done: Done,
        writer: Writer | None = None,
    ) -> int:
        hosted.member.check_writable()
        hosted.member.check_in_step(hosted.topic.rules.min_insync_replicas)
        now_ms = self._broker.clock.wall_ms()
        batch = _batch([_as_record(record, now_ms) for record in records], writer)
        header, member = read_header(batch), hosted.member
        if writer is not None:
            check_writer(hosted, header)
        base_offset = member.log.append(hosted.log, batch, header)
        note_opened(hosted, header)
        deadline_ms = self._broker.clock.monotonic_ms() + WRITE_TIMEOUT_MS
        member.waiting_for_all.park(member.log.end_position, JournalWrite(done, deadline_ms))
        if hosted.waiters:
            member.watch(member.log.end_position, hosted)
        return base_offset

    def rewrite(
        self,
        hosted: HostedPartition,
        live: Iterable[Sequence[JournalRecord]],
        on_done: OnDone,
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Append all live records at the partition's end, then trim everything older.

        `live` yields live records in chunks, read at the moment they are appended. `on_done(live
        bytes)` is called after the trim, or `on_done(None)` if there is none and both copies
        remain. Returns False while a rewrite of the partition is in progress. Once `is_over()`,
        `live` is not read any more and nothing is trimmed.
        """
        return self._rewriter.begin(hosted, iter(live), on_done, is_over=is_over)

    def load(
        self,
        hosted: HostedPartition,
        receiver: Receiver,
        on_done: OnLoaded,
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read a partition from its start to its end, one chunk per loop iteration.

        Whatever is appended meanwhile is read, too: `on_done` is called at the end of the log.
        Nothing is called any more once `is_over()`.
        """
        _Loader(self._broker, hosted, receiver, on_done, is_over).step()


def _batch(records: list[Record], writer: Writer | None) -> memoryview:
    if writer is None:
        return memoryview(bytearray(build_batch(records)))
    built = build_batch(
        records,
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        attributes=TRANSACTIONAL,
    )
    return memoryview(bytearray(built))


def _as_record(record: JournalRecord, now_ms: int) -> Record:
    """Return the record to append: an unread record unchanged, any other with the time."""
    if isinstance(record, UnreadRecord) and record.timestamp_ms != NO_TIMESTAMP:
        return Record(*record)
    if isinstance(record, UnreadRecord):
        return Record(record.key, record.value, record.headers, now_ms)
    key, value = record
    return Record(key, value, (), now_ms)


class _Loader:
    """Reads one internal partition without blocking the loop."""

    def __init__(
        self,
        broker: Broker,
        hosted: HostedPartition,
        receiver: Receiver,
        on_done: OnLoaded,
        is_over: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._hosted = hosted
        self._receiver = receiver
        self._on_done = on_done
        self._is_over = is_over
        self._offset = hosted.log.log_start_offset

    def step(self) -> None:
        hosted = self._hosted
        if self._is_over():
            return
        if self._offset >= hosted.log.log_end_offset:
            self._on_done(None)
            return
        try:
            found = hosted.member.log.read(
                hosted.log, self._offset, LOAD_BYTES, hosted.member.log.end_position
            )
        except StorageError as error:
            self._on_done(error)
            return
        if isinstance(found, NeedsDisk):
            found.load(self._take)
        else:
            self._take(found, None)

    def _take(self, chunk: Chunk | None, error: PlatformError | None) -> None:
        if self._is_over():
            return
        if chunk is None:
            self._on_done(error)
            return
        if not chunk.size and self._hosted.member.log.is_fenced:
            self._on_done(LogFenced("records to be loaded were never written"))
            return
        self._go_on(self._apply(chunk.buffers))

    def _go_on(self, steps: Iterator[int]) -> None:
        """Replay some of the records read; the rest, or more of the log, follows later."""
        if self._is_over():
            return
        try:
            left = LOAD_TOGETHER
            for taken in steps:
                left -= taken
                if left <= 0:
                    self._broker.scheduler.call_soon(lambda: self._go_on(steps))
                    return
        except PlatformError as bad:
            self._on_done(bad)
            return
        self._broker.scheduler.call_soon(self.step)

    def _apply(self, buffers: Iterable[memoryview]) -> Iterator[int]:
        """Replay the records of batches one by one; yields what each counts."""
        for buffer in buffers:
            at = 0
            while at < len(buffer):
                header = read_header(buffer, at)
                batch = buffer[at : at + header.size_bytes]
                if header.attributes & CONTROL:
                    self._end(header, batch)
                    yield 1
                else:
                    for record in iter_records(batch):
                        self._take_record(header, _as_unread(record))
                        yield 1 + len(record.value or b"") // LOAD_BYTES_WEIGHED
                at += header.size_bytes
                self._offset = Offset(header.base_offset + header.last_offset_delta + 1)

    def _take_record(self, header: BatchHeader, record: UnreadRecord) -> None:
        if header.attributes & TRANSACTIONAL:
            self._receiver.pending(_writer_of(header), record)
        else:
            self._receiver.record(record)

    def _end(self, header: BatchHeader, batch: memoryview) -> None:
        marker = read_marker(batch)
        if marker is None:
            self._receiver.unread_batch(f"unknown control batch at offset {header.base_offset}")
        else:
            self._receiver.ended(_writer_of(header), is_commit=marker.is_commit)


def _writer_of(header: BatchHeader) -> Writer:
    return Writer(header.producer_id, header.producer_epoch)


def _as_unread(record: DecodedRecord) -> UnreadRecord:
    return UnreadRecord(record.key, record.value, record.headers, record.timestamp_ms)
