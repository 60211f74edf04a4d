"""Rebuilding a sealed index from its segment, since the index is derived from the log.

The segment alone tells which transactions were aborted in it (record/marker.py), and not which were
open: what was stable is UNKNOWN then, and searches for aborted transactions go on behind it.

Source: Kafka `LogSegment.recover` (discards every index and reads the log).
"""

from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.base.ids import Offset, Position, TopicId, TopicPartition
from penstock.base.ports import Disk, DiskFile
from penstock.frames.frames import KIND_BATCH
from penstock.record.batch import TRANSACTIONAL_OR_CONTROL, BatchHeader, read_header
from penstock.record.errors import RecordError
from penstock.record.marker import NOTHING_OPEN, read_marker
from penstock.storage.commit_log.segments import Segment, index_path
from penstock.storage.errors import CorruptFile, CorruptFrame, CorruptLog
from penstock.storage.index.aborted import NO_ABORTED, UNKNOWN, new_aborted
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import Sealed, encode_index, read_index_header
from penstock.storage.recover.scan import SegmentScan

Going = dict[tuple[bytes, int], dict[int, int]]
"""(topic id, partition) -> producer id -> first offset of its open transaction."""


def scan_columns(
    file: DiskFile, base: Position, position: Position, end: Position, going: Going | None = None
) -> tuple[dict[TopicPartition, Sealed], SegmentScan]:
    """Read the frames of [position, end) into columns; the scan has where and why it stopped.

    `going` has the transactions that are open where the scan begins, and is changed to those that
    are open where it ends. Without it, what was decided is not known.
    """
    found: dict[tuple[bytes, int], _Found] = {}
    scan = SegmentScan(file, base, position, end)
    for header, payload in scan:
        if header.kind != KIND_BATCH:
            continue
        key = (header.topic_id, header.partition)
        of_partition = found.get(key)
        if of_partition is None:
            is_open = None if going is None else going.setdefault(key, {})
            of_partition = found[key] = _Found(is_open)
        of_partition.add(read_header(payload), header.position, payload)
    parts = {
        TopicPartition(TopicId(topic_id), partition): of_partition.sealed()
        for (topic_id, partition), of_partition in found.items()
    }
    return parts, scan


class _Found:
    """What a scan has found of one partition. `going` is None if open transactions are unknown."""

    __slots__ = ("_aborted", "_columns", "_end", "_going")

    def __init__(self, going: dict[int, int] | None) -> None:
        self._columns = Columns(array("q"), array("q"), array("i"), array("q"))
        self._aborted = NO_ABORTED
        self._going = going
        self._end = Offset(0)

    def add(self, batch: BatchHeader, position: int, payload: memoryview) -> None:
        add_entry(self._columns, batch.base_offset, position, len(payload), batch.max_timestamp)
        self._end = Offset(batch.base_offset + batch.last_offset_delta + 1)
        if batch.is_control:
            self._add_marker(batch, payload)
        elif batch.attributes & TRANSACTIONAL_OR_CONTROL and self._going is not None:
            self._going.setdefault(batch.producer_id, batch.base_offset)

    def _add_marker(self, batch: BatchHeader, payload: memoryview) -> None:
        try:
            marker = read_marker(payload)
        except RecordError:
            return  # a control record of another kind
        if marker is None:
            return
        if self._going is not None:
            self._going.pop(batch.producer_id, None)
        if not marker.is_commit and marker.first_offset != NOTHING_OPEN:
            if self._aborted is NO_ABORTED:
                self._aborted = new_aborted()
            stable, offset = self._stable(), batch.base_offset
            self._aborted.add(batch.producer_id, marker.first_offset, offset, stable)

    def _stable(self) -> Offset:
        """Return the first offset that is not decided yet; UNKNOWN if that is not known."""
        if self._going is None:
            return UNKNOWN
        return Offset(min(self._going.values(), default=self._end))

    def sealed(self) -> Sealed:
        return Sealed(self._columns, self._end, self._aborted, self._stable())


def add_entry(columns: Columns, base: int, position: int, size: int, timestamp: int) -> None:
    """Append one batch to columns that are arrays."""
    bases, positions, sizes, timestamps = columns
    assert isinstance(bases, array)
    assert isinstance(positions, array)
    assert isinstance(sizes, array)
    assert isinstance(timestamps, array)
    bases.append(base)
    positions.append(position)
    sizes.append(size)
    timestamps.append(timestamp)


def rebuild_index(disk: Disk, directory: str, base: Position, path: str) -> bytes:
    """Rebuild the index of the closed segment at `path`, write its file and return the bytes.

    If the file can not be written (the disk may be full), the bytes are still returned. Waits for
    the disk.

    Raises:
        CorruptFrame: the segment itself is damaged.
    """
    file = disk.open(path)
    try:
        parts, scan = scan_columns(file, base, base, Position(base + file.size()))
    finally:
        file.close()
    if scan.error is not None:
        raise CorruptFrame(scan.error.position, scan.error.reason)
    data = encode_index(base, scan.position, parts, segment_end=scan.end)
    with suppress(OSError):
        disk.replace(index_path(directory, base), data)
    return data


def rebuild_missing(
    disk: Disk, directory: str, closed: Sequence[Segment], on_damaged: Callable[[str], None]
) -> None:
    """Rebuild missing and damaged indexes of closed segments.

    Raises:
        CorruptLog: a segment itself is damaged, so that its index can not be rebuilt.
    """
    for segment in closed:
        if _has_index(disk, directory, segment.base, on_damaged):
            continue
        try:
            rebuild_index(disk, directory, segment.base, segment.path)
        except CorruptFrame as error:
            raise CorruptLog(directory, error.position, error.reason) from error


def _has_index(
    disk: Disk, directory: str, base: Position, on_damaged: Callable[[str], None]
) -> bool:
    path = index_path(directory, base)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return False
    try:
        read_index_header(path, base, file.read)
    except CorruptFile as error:
        on_damaged(str(error))
        return False
    finally:
        file.close()
    return True


def remove_stale_indexes(disk: Disk, directory: str, closed: Sequence[Segment]) -> None:
    """Remove all indexes but those of closed segments: their frames or files are gone."""
    kept = {segment.base for segment in closed}
    for name in disk.list(f"{directory}/index"):
        if name.endswith(".idx") and int(name[:20]) not in kept:
            disk.remove(f"{directory}/index/{name}")
    disk.sync_directory(f"{directory}/index")
