"""The commit log's part of a retention pass: find the segments that no partition needs.

    load the directory of one closed segment off the loop
      ─► on the loop, some hundred partitions at a time: apply the rules to its entries
      ─► next segment ... then the active one, whose columns are in memory
      ─► dead segments are deleted when a snapshot has the new log starts (stores/retention.py)
      ─► for the others, `pins` has the report of the last whole pass: who keeps them (pins.py),
         and `splitting` what of them is to go to extent files (second_level/planning.py)

An entry is what one partition has in one segment, a piece in the sense of stores/rules.py. A pass
stops at a segment whose index it can not read. A segment is dead when each of its partitions was
dropped, has its log start behind the segment, or has these batches in an older store as well: the
commit log then releases them, and its own start for that partition moves behind the segment.

A quiet node may take months to fill a segment. So if all of a partition's data in the active
segment are too old, and nothing was appended since the last pass, its log start is raised by a
frame, as DeleteRecords does; the bytes are deleted with the segment. If that can not be waited for,
the segment is closed early (early_roll.py).

What the set has not confirmed is kept, as no reader has seen it yet: a log start above the high
watermark would be one at which nothing can be read.

Reads and writes continue meanwhile; a file is removed when no read can still use it.

Source: Kafka `UnifiedLog.deleteOldSegments` (retention.ms, retention.bytes; it rolls an active
segment whose records are all too old). Departure: a segment is deleted only when its last partition
is out of retention. Segments of a single partition do not exist (ADR 0002). As there, nothing above
the high watermark goes.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.early_roll import EarlyRoll
from penstock.storage.commit_log.pins import NO_REPORT, Pin, PinCollector
from penstock.storage.commit_log.segments import Segment, SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.config import Retention
from penstock.storage.errors import StorageError
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.sealed_index import IndexEntry
from penstock.storage.read.reader import LogReader
from penstock.storage.second_level.planning import SplitPlanner
from penstock.storage.second_level.splitting import Splitting
from penstock.storage.stores.older import OlderStores
from penstock.storage.stores.port import Judged, LetGo
from penstock.storage.stores.rules import RetentionRules

ENTRIES_PER_SLICE = 500
"""About one millisecond of the loop."""


class SegmentRetention:
    """Decides which segments of a log are kept, one pass at a time."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        store: SegmentStore,
        reader: LogReader,
        writer: LogWriter,
        older: OlderStores,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self._reader = reader
        self._writer = writer
        self._older = older
        self.early: EarlyRoll
        """Is asked by each whole pass whether to close the active segment."""
        self._rules = RetentionRules({}, 0, _keep_all, _nothing_older)
        self._done: Judged = _ignore
        self._queue: list[Segment] = []
        self._dead: list[Segment] = []
        self._at_rest: dict[int, Offset] = {}
        """Log end offsets, by serial, of partitions whose active data were too old last time."""
        self._seen_at_rest: dict[int, Offset] = {}
        self.trim: Callable[[PartitionLog, Offset], Offset] = _keep_start
        """Raises a log start by a frame: SetLog.delete_records."""
        self.is_confirmed: Callable[[Position], bool] = _confirms_itself
        """Whether the log is confirmed up to a position (exclusive)."""
        self.deleted_segments = 0
        self.pins = NO_REPORT
        """The report of the last complete pass."""
        self._collector = PinCollector(0)
        self.splitting: Splitting
        """Is told by each whole pass what is to be split."""
        self._planner: SplitPlanner

    def judge(self, rules: RetentionRules, done: Judged) -> None:
        """Judge all segments, in slices; see PartitionStore.judge."""
        self._rules = rules
        self._done = done
        closed = self._store.segments[:-1]
        ready = list(takewhile(self._is_ready, closed))
        self._queue = ready[::-1]
        self._dead = []
        self._collector = PinCollector(self.pins.number + 1)
        self._planner = self.splitting.planner(
            now_ms=rules.now_ms,
            end=self._writer.end_position,
            flushed=self._writer.flushed_position,
        )
        behind = closed[len(ready) :]
        if behind:
            why = Pin.CLOSING if behind[0].pending is not None else Pin.UNCONFIRMED
            self._pass_over(behind, why)
        self._next_segment()

    def _is_ready(self, segment: Segment) -> bool:
        return segment.pending is None and self.is_confirmed(segment.end)

    def _pass_over(self, segments: Sequence[Segment], pin: Pin) -> None:
        """Leave the first segment, for this reason, and all behind it to the next pass.

        The bytes of the first one are still in the partitions' sizes. With them, newer records
        would seem to exceed the size limit, so nothing behind the segment can be decided.
        """
        for number, segment in enumerate(segments):
            why = Pin.BEHIND if number else pin
            self._collector.add(segment.base, segment.end - segment.base, why)

    def _next_segment(self) -> None:
        if not self._queue or self._store.is_closed:
            self._seen_at_rest, self._at_rest = self._at_rest, {}
            self._slice_active(list(self._rules.partitions.values()), 0)
            return
        segment = self._queue.pop()
        closed = ClosedSegment(segment.base, segment.path)
        lookup = SealedLookup(self._disk, self._directory, (closed,))

        def loaded(entries: list[IndexEntry] | None, _: BaseException | None) -> None:
            if entries is None:
                behind, self._queue = self._queue[::-1], []
                self._planner.stop()
                self._pass_over([segment, *behind], Pin.UNREAD)
                self._next_segment()
                return
            self._slice(segment, entries, 0)

        self._reader.off_loop(lambda: lookup.directory_of(closed), loaded)

    def _slice(self, segment: Segment, entries: list[IndexEntry], start: int) -> None:
        """Judge some entries, then let other work run before the next ones."""
        end = min(start + ENTRIES_PER_SLICE, len(entries))
        for entry in entries[start:end]:
            self._judge(segment, entry)
        if end < len(entries):
            self._writer.scheduler.call_soon(lambda: self._slice(segment, entries, end))
            return
        self._planner.end_segment(segment.base, segment.end, segment.path)
        if self._collector.end_segment(segment.base, segment.end - segment.base):
            self._dead.append(segment)
        self._next_segment()

    def _judge(self, segment: Segment, entry: IndexEntry) -> None:
        """Note who keeps the segment, or subtract the entry's bytes from the partition's size."""
        partition = self._rules.partitions.get(entry.topic_partition)
        if partition is None:
            return
        settings = self._rules.settings_of(partition.topic_partition)
        is_needed = self._rules.is_needed(partition, settings, entry)
        if is_needed and not self._is_released(segment, partition, entry):
            key = partition.topic_partition
            self._collector.pin(key, is_movable=settings.is_movable)
            start = self.splitting.start_of(partition)
            self._planner.want(key, start, entry, is_compacted=settings.is_compacted)
        elif partition.sized_from <= segment.base:
            partition.size_bytes -= entry.batch_bytes
            partition.sized_from = segment.end
            self._writer.dirty.append(partition)

    def _is_released(self, segment: Segment, partition: PartitionLog, entry: IndexEntry) -> bool:
        """Release the entry if an older store has it and it is the oldest in the commit log."""
        if not self._older.may_take_over(partition, entry.end_offset):
            return False
        if entry.first_offset <= partition.commit_log_start_offset:
            partition.release(entry.end_offset)
            self._older.released(segment.end)
        return entry.end_offset <= partition.commit_log_start_offset

    def _slice_active(self, partitions: list[PartitionLog], start: int) -> None:
        """Judge the active data of some partitions, then let other work run."""
        if self._store.is_closed:
            self._done(None)
            return
        if self._writer.is_following:
            partitions = []  # only a master appends frames; slaves get them by replication
        end = start + ENTRIES_PER_SLICE
        for partition in partitions[start:end]:
            settings = self._rules.settings_of(partition.topic_partition)
            self.early.look(partition, settings, self._rules.now_ms)
            if partition.bases and self._is_active_over(partition):
                # If the log can not take a frame now, the next pass tries again.
                with suppress(StorageError):
                    self.trim(partition, partition.log_end_offset)
        if end < len(partitions):
            self._writer.scheduler.call_soon(lambda: self._slice_active(partitions, end))
        else:
            self._finish()

    def _is_active_over(self, partition: PartitionLog) -> bool:
        """Whether all kept data are in the active segment, unchanged since, and too old."""
        keep_ms = self._rules.settings_of(partition.topic_partition).ms
        end_offset = partition.log_end_offset
        if keep_ms < 0 or not partition.bases[0] <= partition.log_start_offset < end_offset:
            return False
        limit_ms = self._rules.now_ms - keep_ms
        if partition.timestamps[-1] >= limit_ms or not 0 <= max(partition.timestamps) < limit_ms:
            return False
        self._at_rest[partition.serial] = end_offset
        end_position = partition.last_end_position
        if end_position > self._writer.flushed_position or not self.is_confirmed(end_position):
            return False
        return self._seen_at_rest.get(partition.serial) == end_offset

    def _finish(self) -> None:
        active = self._store.active
        self._collector.add(active.base, active.end - active.base, Pin.ACTIVE)
        self.pins = self._collector.report(self.splitting.movable)
        self.splitting.planned(self._planner)
        if not self._store.is_closed:
            self.early.end_pass(self._rules.now_ms)
        if not self._dead or self._store.is_closed:
            self._done(None)
            return
        for segment in self._dead:
            segment.is_doomed = True
        self._done(self._delete_dead)

    def _delete_dead(self) -> None:
        if self._store.is_closed:
            return
        for segment in self._dead:
            self._reader.cache.drop_segment(segment.base)
            self._store.remove(segment)
            self.deleted_segments += 1
        self._dead = []


def _keep_start(partition: PartitionLog, _: Offset) -> Offset:
    return partition.log_start_offset


def _confirms_itself(_: Position) -> bool:
    return True


def _keep_all(_: TopicPartition) -> Retention:
    return Retention(-1, -1)


def _nothing_older(_: PartitionLog) -> int:
    return 0


def _ignore(_: LetGo | None) -> None:
    """Stand in for a pass."""
