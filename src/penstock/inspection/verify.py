"""Reading a whole log and checking that its files are consistent: `penstock log verify`.

    every frame      checksums, position, the batch's own CRC, leader epochs that never fall
    every partition  offsets without a hole (a hole is fine where a dead segment was deleted)
    every index      the same entries as the frames of its segment
    every snapshot   readable, and not beyond the end of the log
    every extent     verify_extents.py

Only reads. If a node is writing to the directory, frames written during the check may be missed:
the log is then reported to end before them.

Source: Kafka's `kafka-dump-log --verify-index-only` and `--deep-iteration`.
"""

from collections.abc import Generator, Iterator, Sequence
from uuid import UUID

from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk
from penstock.inspection.findings import Finding, Severity
from penstock.inspection.verify_extents import second_level_findings
from penstock.storage.commit_log.segments import Segment, index_path, list_segments
from penstock.storage.commit_log.snapshot import Snapshot, decode_snapshot
from penstock.storage.errors import CorruptFile
from penstock.storage.index.rebuild import scan_columns
from penstock.storage.index.sealed_index import (
    Sealed,
    read_block,
    read_directory,
    read_index_header,
)
from penstock.storage.recover.scan import SegmentScan, find_good_frames


class LogCheck:
    """One verification; iterate `findings`, then read the counters."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._next_offsets: dict[TopicPartition, int] = {}
        self._before_hole: dict[TopicPartition, int] = {}
        """For partitions without a frame since a hole: the lowest offset that may follow."""
        self.batch_count = 0
        self.batch_bytes = 0
        self.segment_count = 0
        self.end_position = 0

    def findings(self) -> Iterator[Finding]:
        """Check everything, and yield findings as they are made."""
        snapshot = yield from self._snapshots()
        segments = list_segments(self._disk, self._directory)
        if not segments:
            yield Finding(Severity.ERROR, self._directory, -1, "there are no segment files")
            return
        used = [segment for segment in segments if self._is_used(segment, snapshot)]
        yield from self._missing(segments, snapshot)
        end = 0
        for segment in used:
            if end and segment.base != end:
                self._before_hole |= self._next_offsets
                self._next_offsets.clear()
            end = segment.end
            yield from self._segment(segment, is_last=segment is used[-1])
        if snapshot is not None and snapshot.position > self.end_position:
            message = f"log ends at {self.end_position}, but was durable to {snapshot.position}"
            yield Finding(Severity.ERROR, self._directory, self.end_position, message)
        yield from second_level_findings(self._disk, self._directory)

    def _snapshots(self) -> Generator[Finding, None, Snapshot | None]:
        """Yield findings on the snapshots; the generator's value is the newest good one."""
        newest: Snapshot | None = None
        for name in self._disk.list(f"{self._directory}/snapshot"):
            path = f"{self._directory}/snapshot/{name}"
            try:
                newest = decode_snapshot(path, _whole_file(self._disk, path))
            except CorruptFile as error:
                yield Finding(Severity.WARNING, path, -1, error.reason)
            except FileNotFoundError:
                continue
        return newest

    def _missing(self, segments: Sequence[Segment], snapshot: Snapshot | None) -> Iterator[Finding]:
        bases = {segment.base for segment in segments}
        for base in snapshot.segments if snapshot is not None else ():
            if base not in bases:
                yield Finding(
                    Severity.ERROR,
                    self._directory,
                    base,
                    "the segment file that begins here is missing",
                )

    def _is_used(self, segment: Segment, snapshot: Snapshot | None) -> bool:
        """Whether the log has reached the segment; one that is allocated ahead it has not."""
        if snapshot is not None and segment.base < snapshot.position:
            return True
        file = self._disk.open(segment.path)
        try:
            scan = SegmentScan(file, segment.base, segment.base, segment.end)
            return next(iter(scan), None) is not None
        finally:
            file.close()

    def _segment(self, segment: Segment, *, is_last: bool) -> Iterator[Finding]:
        file = self._disk.open(segment.path)
        try:
            parts, scan = scan_columns(file, segment.base, segment.base, segment.end)
            self.segment_count += 1
            self.end_position = segment.end if scan.error is None else scan.position
            if scan.error is not None:
                reason = scan.error.reason
                if not is_last:
                    yield Finding(Severity.ERROR, segment.path, scan.position, reason)
                else:
                    behind = find_good_frames(file, segment.base, scan.position, segment.end)
                    count = sum(1 for _ in behind)
                    yield self._end(segment, scan.position, reason, count)
        finally:
            file.close()
        yield from self._offsets(segment, parts)
        if not is_last:
            yield from self._index(segment, parts)

    def _end(self, segment: Segment, position: int, reason: str, frames_behind: int) -> Finding:
        if frames_behind:
            message = f"{reason}; {frames_behind} whole frames lie behind it"
            return Finding(Severity.ERROR, segment.path, position, message)
        return Finding(Severity.NOTE, segment.path, position, f"the log ends here: {reason}")

    def _offsets(self, segment: Segment, parts: dict[TopicPartition, Sealed]) -> Iterator[Finding]:
        """Yield a finding where a partition's offsets have a hole, also between two segments."""
        for wanted, (columns, end_offset, *_) in parts.items():
            self.batch_count += len(columns.bases)
            self.batch_bytes += sum(columns.sizes)
            first = columns.bases[0]
            expected = self._next_offsets.get(wanted, max(first, self._before_hole.get(wanted, 0)))
            if first != expected:
                message = f"{_name(wanted)}: offset {first}, expected {expected}"
                yield Finding(Severity.ERROR, segment.path, columns.positions[0], message)
            self._next_offsets[wanted] = end_offset

    def _index(self, segment: Segment, parts: dict[TopicPartition, Sealed]) -> Iterator[Finding]:
        path = index_path(self._directory, segment.base)
        try:
            indexed = self._read_index(segment, path)
        except CorruptFile as error:
            yield Finding(Severity.WARNING, path, -1, error.reason)
            return
        except FileNotFoundError:
            yield Finding(Severity.WARNING, path, -1, "the index is missing")
            return
        for wanted in sorted(parts.keys() - indexed.keys()):
            message = f"{_name(wanted)} is in the log and not in the index"
            yield Finding(Severity.NOTE, path, -1, message)
        for wanted, sealed in indexed.items():
            if wanted not in parts or _lists(sealed) != _lists(parts[wanted]):
                message = f"{_name(wanted)}: index and log do not agree"
                yield Finding(Severity.WARNING, path, -1, message)

    def _read_index(self, segment: Segment, path: str) -> dict[TopicPartition, Sealed]:
        file = self._disk.open(path)
        try:
            header = read_index_header(path, segment.base, file.read)
            return {
                entry.topic_partition: read_block(path, entry, file.read)
                for entry in read_directory(path, header, file.read)
            }
        finally:
            file.close()


def _whole_file(disk: Disk, path: str) -> memoryview:
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _lists(sealed: Sealed) -> list[list[int]]:
    """Return what a segment alone tells: not which of its offsets were stable when it closed."""
    aborted = sealed.aborted
    told = aborted.producer_ids, aborted.first_offsets, aborted.last_offsets
    return [list(column) for column in (*sealed.columns, *told)]


def _name(wanted: TopicPartition) -> str:
    return f"topic {UUID(bytes=wanted.topic_id)} partition {wanted.partition}"
