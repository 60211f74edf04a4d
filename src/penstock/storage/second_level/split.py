"""Sorts closed segments by partition into one extent file.

    segments   [ a b a c a | end ] [ b a c | end ]
    file       [ a a a a ][ b b ][ c c ] summaries, directory

The segments are closed, have an index, and lie below the confirm position: no truncation reaches
them. Every frame is checked before its batch is copied, so that damage of the log is found here and
does not get a new checksum. Only reads the log. The file gets no name that counts: whoever takes it
over gives it one (store.py), so that a splitter which outlives its node writes over nothing.
Memory: one block, and the index of one partition at a time.

Source: docs/adr/0103, docs/adr/0104. RocketMQ fills its CompactionLog per message as it is
dispatched; here a segment is copied once, after it was closed.
"""

from collections.abc import Callable, Iterator, Sequence

from penstock.base.ids import TopicPartition
from penstock.base.ports import Buffer, Disk, DiskFile
from penstock.extents.layout import Aborted, Entry
from penstock.extents.writer import ExtentFileWriter
from penstock.frames.frames import FRAME_HEADER_BYTES, KIND_BATCH, check_body, check_header
from penstock.storage.errors import CorruptFrame
from penstock.storage.index.lookup import Block, ClosedSegment, SealedLookup
from penstock.storage.index.sealed_index import IndexEntry

Wanted = Callable[[TopicPartition], int | None]
"""From which offset on a partition is copied (inclusive); None: not at all."""

Identity = tuple[bytes, int]
"""Cluster id, 16 bytes, and the replica set's id."""


def split_segments(
    disk: Disk,
    directory: str,
    segments: Sequence[ClosedSegment],
    wanted: Wanted,
    *,
    unfinished: str,
    identity: Identity,
) -> list[Entry]:
    """Write the extent file `unfinished` and return its directory; no file if nothing is wanted.

    Its bytes are durable. Waits for the disk. Raises CorruptFrame: a segment is damaged; OSError:
    the file is removed again.
    """
    lookup = SealedLookup(disk, directory, segments)
    keys = {entry.topic_partition for one in segments for entry in lookup.directory_of(one)}
    starts = [(key, start) for key in sorted(keys) if (start := wanted(key)) is not None]
    file = disk.open(unfinished, create=True)
    try:
        writer = ExtentFileWriter(appending(file), *identity)
        for key, start in starts:
            _write_extent(disk, lookup, writer, key, start)
        entries = writer.finish()
        file.sync()
    except BaseException:
        disk.remove(unfinished)
        raise
    finally:
        file.close()
    if not entries:
        disk.remove(unfinished)
    return entries


def appending(file: DiskFile) -> Callable[[Sequence[Buffer]], None]:
    """Return what writes behind what it wrote before."""
    file.truncate(0)
    end = 0

    def write(buffers: Sequence[Buffer]) -> None:
        nonlocal end
        end += file.write(end, buffers)

    return write


def _write_extent(
    disk: Disk, lookup: SealedLookup, writer: ExtentFileWriter, key: TopicPartition, start: int
) -> None:
    """Write the batches of one partition from offset `start` on, if there are any."""
    aborted: list[Sequence[int]] = [[], [], [], []]
    decided_end: int | None = None
    for block in lookup.blocks(key, lambda entry: _reaches(entry, start)):
        if decided_end is None:
            writer.begin(key)
        for batch in _batches(disk, block, key, start):
            writer.add(batch)
        aborted = [
            [*before, *column]
            for before, column in zip(aborted, block.aborted.columns, strict=True)
        ]
        decided_end = block.stable_end
    if decided_end is not None:
        writer.end(Aborted(*aborted), decided_end)


def _reaches(entry: IndexEntry, start: int) -> bool:
    return entry.end_offset > start


def _batches(disk: Disk, block: Block, key: TopicPartition, start: int) -> Iterator[memoryview]:
    """Yield the batches of a partition in one segment, from the one that holds `start` on."""
    columns = block.columns
    first = max(columns.entry_of(start), 0)
    file = disk.open(block.segment_path)
    try:
        for at in range(first, len(columns.bases)):
            yield _batch_at(file, block, at, key)
    finally:
        file.close()


def _batch_at(file: DiskFile, block: Block, at: int, key: TopicPartition) -> memoryview:
    """Return one batch, whose frame is whole and the one that the index names."""
    position = block.columns.positions[at]
    size = FRAME_HEADER_BYTES + block.columns.sizes[at]
    frame = file.read(position - block.segment_base, size)
    header = check_header(frame, 0, position, size)
    is_named = (header.topic_id, header.partition) == key and header.frame_bytes == size
    if header.kind != KIND_BATCH or not is_named:
        raise CorruptFrame(position, f"the index names a batch of {size} bytes of {key}")
    check_body(frame, 0, header)
    return frame[FRAME_HEADER_BYTES:]
