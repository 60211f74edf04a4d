"""Retention: raise log start offsets by age and size, and delete segments that are all dead.

    load the directory of one closed segment off the loop
      ─► on the loop, some hundred partitions at a time: out of retention? raise its log start
      ─► next segment ... then the active one, whose columns are in memory
      ─► is any segment dead? checkpoint, and delete when it is durable
      ─► who keeps each of the others? `pins` has the report of the last whole pass (pins.py)

A partition's data goes in segment steps and from its old end only: an entry is looked at when
everything before it is gone already, and a pass goes no further than a segment that it can not look
into. A segment is dead when each of its partitions is dropped or has its log start behind it. The
order matters: only when a snapshot has the new log starts may the bytes go, otherwise a crash would
bring back a log start that points at nothing.

A quiet node may take months to fill a segment. So a partition whose data in the active one are all
too old, and that nobody wrote to since the last pass, is emptied by a frame, as DeleteRecords does;
the bytes go with the segment.

Reads and writes go on all the while; a file is removed when no read can still use it.

Source: Kafka `UnifiedLog.deleteOldSegments` (retention.ms, retention.bytes; it rolls an active
segment of which all is too old). Departure: a segment goes when its last partition is out of
retention: long retention wants segments of one partition each, which do not exist yet (ADR 0002).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile

from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.checkpoint import Checkpointer
from penstock.storage.commit_log.segments import Segment, SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.config import Retention
from penstock.storage.errors import StorageError
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.sealed_index import IndexEntry
from penstock.storage.inspect.pins import NO_REPORT, Pin, PinCollector
from penstock.storage.read.reader import LogReader

ENTRIES_PER_SLICE = 500
"""About one millisecond of the loop."""

SettingsOf = Callable[[TopicPartition], Retention]


class RetentionPass:
    """One pass at a time over the closed segments of a log."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        store: SegmentStore,
        reader: LogReader,
        writer: LogWriter,
        checkpointer: Checkpointer,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self._reader = reader
        self._writer = writer
        self._checkpointer = checkpointer
        self._partitions: dict[TopicPartition, PartitionLog] = {}
        self._queue: list[Segment] = []
        self._dead: list[Segment] = []
        self._kept: set[int] = set()
        """Serials of partitions of which this pass has kept something: all behind it stays."""
        self._now_ms = 0
        self._settings_of: SettingsOf = _keep_all
        self._at_rest: dict[int, int] = {}
        """Log end offsets, by serial, of partitions whose active data were too old last time."""
        self._seen_at_rest: dict[int, int] = {}
        self.trim: Callable[[PartitionLog, int], int] = _keep_start
        """Raises a log start by a frame: SetLog.delete_records."""
        self.is_running = False
        self.deleted_segments = 0
        self.pins = NO_REPORT
        """What the last whole pass saw."""
        self._collector = PinCollector(0)

    def begin(
        self,
        partitions: dict[TopicPartition, PartitionLog],
        now_ms: int,
        settings_of: SettingsOf,
    ) -> None:
        """Start a pass; does nothing while one is running."""
        if self.is_running:
            return
        self.is_running = True
        self._partitions = partitions
        self._now_ms = now_ms
        self._settings_of = settings_of
        closed = self._store.segments[:-1]
        ready = list(takewhile(lambda segment: segment.pending is None, closed))
        self._queue = ready[::-1]
        self._dead = []
        self._kept.clear()
        self._collector = PinCollector(self.pins.number + 1)
        self._pass_over(closed[len(ready) :], Pin.CLOSING)
        self._next_segment()

    def _pass_over(self, segments: Sequence[Segment], pin: Pin) -> None:
        """Leave the first one, for this reason, and all behind it to the next pass.

        What partitions have in the first one is still in their count: by it, newer records would
        seem to be too many, and what is taken from the count behind it could not be told apart.
        """
        for number, segment in enumerate(segments):
            why = Pin.BEHIND if number else pin
            self._collector.add(segment.base, segment.end - segment.base, why)

    def _next_segment(self) -> None:
        if not self._queue or self._store.is_closed:
            self._seen_at_rest, self._at_rest = self._at_rest, {}
            self._slice_active(list(self._partitions.values()), 0)
            return
        segment = self._queue.pop()
        closed = ClosedSegment(segment.base, segment.path)
        lookup = SealedLookup(self._disk, self._directory, (closed,))

        def loaded(entries: list[IndexEntry] | None, _: BaseException | None) -> None:
            if entries is None:
                behind, self._queue = self._queue[::-1], []
                self._pass_over([segment, *behind], Pin.UNREAD)
                self._next_segment()
                return
            self._slice(segment, entries, 0)

        self._reader.off_loop(lambda: lookup.directory_of(closed), loaded)

    def _slice(self, segment: Segment, entries: list[IndexEntry], start: int) -> None:
        """Judge some entries, then give the loop to others before the next ones."""
        end = min(start + ENTRIES_PER_SLICE, len(entries))
        for entry in entries[start:end]:
            self._judge(segment, entry)
        if end < len(entries):
            self._writer.scheduler.call_soon(lambda: self._slice(segment, entries, end))
            return
        if self._collector.end_segment(segment.base, segment.end - segment.base):
            self._dead.append(segment)
        self._next_segment()

    def _judge(self, segment: Segment, entry: IndexEntry) -> None:
        """Raise the log start if the entry is out of retention, else note who keeps the segment.

        A log start that is raised meanwhile, behind what the pass has kept, waits for the next one:
        what is counted is counted off from the oldest segment on.
        """
        partition = self._partitions.get(entry.topic_partition)
        if partition is None:
            return
        settings = self._settings_of(partition.topic_partition)
        if partition.serial in self._kept:
            self._collector.pin(partition.topic_partition, is_movable=settings.is_movable)
            return
        start = partition.log_start_offset
        if entry.first_offset <= start < entry.end_offset and self._is_over(
            settings, partition, entry
        ):
            partition.log_start_offset = entry.end_offset
        if partition.log_start_offset < entry.end_offset:
            self._kept.add(partition.serial)
            self._collector.pin(partition.topic_partition, is_movable=settings.is_movable)
        elif partition.sized_from <= segment.base:
            partition.size_bytes -= entry.batch_bytes
            partition.sized_from = segment.end
            self._writer.dirty.append(partition)

    def _is_over(self, settings: Retention, partition: PartitionLog, entry: IndexEntry) -> bool:
        keep_bytes, keep_ms = settings.bytes, settings.ms
        if keep_ms >= 0 and 0 <= entry.max_timestamp < self._now_ms - keep_ms:
            return True
        return 0 <= keep_bytes <= partition.size_bytes - entry.batch_bytes

    def _slice_active(self, partitions: list[PartitionLog], start: int) -> None:
        """Judge the active data of some partitions, then give the loop to others."""
        if self._store.is_closed:
            self.is_running = False
            return
        if self._writer.is_following:
            partitions = []  # only a master appends frames; the slave gets them with its stream
        end = start + ENTRIES_PER_SLICE
        for partition in partitions[start:end]:
            if partition.bases and self._is_active_over(partition):
                # Where the log takes no frame now, the next pass tries again.
                with suppress(StorageError):
                    self.trim(partition, partition.log_end_offset)
        if end < len(partitions):
            self._writer.scheduler.call_soon(lambda: self._slice_active(partitions, end))
        else:
            self._finish()

    def _is_active_over(self, partition: PartitionLog) -> bool:
        """Whether all that is kept lies in the active segment, at rest, and is too old."""
        keep_ms = self._settings_of(partition.topic_partition).ms
        end_offset = partition.log_end_offset
        if keep_ms < 0 or not partition.bases[0] <= partition.log_start_offset < end_offset:
            return False
        limit_ms = self._now_ms - keep_ms
        if partition.timestamps[-1] >= limit_ms or not 0 <= max(partition.timestamps) < limit_ms:
            return False
        self._at_rest[partition.serial] = end_offset
        is_durable = partition.last_end_position <= self._writer.flushed_position
        return is_durable and self._seen_at_rest.get(partition.serial) == end_offset

    def _finish(self) -> None:
        active = self._store.active
        self._collector.add(active.base, active.end - active.base, Pin.ACTIVE)
        self.pins = self._collector.report()
        if not self._dead or self._store.is_closed:
            self.is_running = False
            return
        for segment in self._dead:
            segment.is_doomed = True
        self._checkpointer.request(self._delete_dead)
        self._writer.on_turn()

    def _delete_dead(self, worked: bool) -> None:
        self.is_running = False
        if not worked or self._store.is_closed:
            return
        for segment in self._dead:
            self._reader.cache.drop_segment(segment.base)
            self._store.remove(segment)
            self.deleted_segments += 1
        self._dead = []


def _keep_start(partition: PartitionLog, _: int) -> int:
    return partition.log_start_offset


def _keep_all(_: TopicPartition) -> Retention:
    return Retention(-1, -1)
