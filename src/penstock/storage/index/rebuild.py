"""Rebuilding a sealed index from its segment, since the index is derived from the log.

The segment alone tells which transactions were aborted in it (record/marker.py), and not which were
open: what was stable is UNKNOWN then, and searches for aborted transactions go on behind it.

Source: Kafka `LogSegment.recover` (discards every index and reads the log).
"""

from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import Disk, DiskFile
from penstock.frames.frames import KIND_BATCH
from penstock.record.batch import TRANSACTIONAL_OR_CONTROL, BatchHeader, read_header
from penstock.record.errors import RecordError
from penstock.record.marker import NOTHING_OPEN, read_marker
from penstock.storage.commit_log.segments import Segment, index_path
from penstock.storage.errors import CorruptFile, CorruptFrame, CorruptLog
from penstock.storage.index.aborted import UNKNOWN, Aborted, new_aborted
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import Sealed, encode_index, read_index_header
from penstock.storage.recover.scan import SegmentScan


def scan_columns(
    file: DiskFile, base: int, position: int, end: int
) -> tuple[dict[TopicPartition, Sealed], SegmentScan]:
    """Read the frames of [position, end) into columns; the scan has where and why it stopped."""
    columns: dict[tuple[bytes, int], Columns] = {}
    ends: dict[tuple[bytes, int], int] = {}
    aborted: dict[tuple[bytes, int], Aborted] = {}
    scan = SegmentScan(file, base, position, end)
    for header, payload in scan:
        if header.kind != KIND_BATCH:
            continue
        key = (header.topic_id, header.partition)
        found = columns.get(key)
        if found is None:
            found = columns[key] = Columns(array("q"), array("q"), array("i"), array("q"))
        batch = read_header(payload)
        add_entry(found, batch.base_offset, header.position, len(payload), batch.max_timestamp)
        ends[key] = batch.base_offset + batch.last_offset_delta + 1
        if batch.attributes & TRANSACTIONAL_OR_CONTROL:
            _add_aborted(aborted.setdefault(key, new_aborted()), batch, payload)
    parts = {
        TopicPartition(TopicId(topic_id), partition): _sealed(
            found, ends[topic_id, partition], aborted.get((topic_id, partition))
        )
        for (topic_id, partition), found in columns.items()
    }
    return parts, scan


def _add_aborted(aborted: Aborted, batch: BatchHeader, payload: memoryview) -> None:
    if not batch.is_control:
        return
    with suppress(RecordError):  # a control record of another kind
        marker = read_marker(payload)
        if marker is not None and not marker.is_commit and marker.first_offset != NOTHING_OPEN:
            aborted.add(batch.producer_id, marker.first_offset, batch.base_offset, UNKNOWN)


def _sealed(columns: Columns, end_offset: int, aborted: Aborted | None) -> Sealed:
    """Return the index of a partition; `aborted` is None if it had no transactional batch."""
    if aborted is None:
        return Sealed(columns, end_offset)
    return Sealed(columns, end_offset, aborted, UNKNOWN)


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


def rebuild_index(disk: Disk, directory: str, base: int, path: str) -> bytes:
    """Rebuild the index of the closed segment at `path`, write its file and return the bytes.

    If the file can not be written (the disk may be full), the bytes are still returned. Waits for
    the disk.

    Raises:
        CorruptFrame: the segment itself is damaged.
    """
    file = disk.open(path)
    try:
        parts, scan = scan_columns(file, base, base, base + file.size())
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


def _has_index(disk: Disk, directory: str, base: int, on_damaged: Callable[[str], None]) -> bool:
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
