"""Writes an extent file from front to back, without going back.

    begin(partition) add(batch) add(batch) ... end(decided) begin(next partition) ... finish()

Batches stay as they are, byte for byte. Memory: one block, 36 bytes for each block written, and the
notes. Whoever writes makes the bytes durable, under a name that readers do not see before that.

Source: layout.py. The caller has checked the batches: a frame's checksums, or those of an extent.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.ids import EpochStart, TopicPartition
from penstock.base.invariant import invariant
from penstock.base.ports import Buffer
from penstock.extents.layout import (
    BLOCK_BYTES,
    BLOCK_COLUMNS,
    CRC,
    ENTRY,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NO_ABORTED,
    NO_HORIZON,
    TAIL,
    TAIL_MAGIC,
    VERSION,
    Aborted,
    Entry,
    Notes,
    encode_notes,
    pack_columns,
)
from penstock.record.batch import BatchHeader, read_header

Write = Callable[[Sequence[Buffer]], None]
"""Appends buffers to the file, one after the other."""


class _Extent:
    """The extent that is being written."""

    def __init__(
        self, topic_partition: TopicPartition, generation: int, at: int, first_offset: int | None
    ) -> None:
        self.topic_partition = topic_partition
        self.generation = generation
        self.first_offset = first_offset
        """Of a rewritten range; None: that of the first batch."""
        self.at = at
        self.columns = [array(kind) for kind in BLOCK_COLUMNS]
        self.epochs: list[EpochStart] = []
        self.first: BatchHeader | None = None
        self.end_offset = -1
        self.max_timestamp = -1
        self.batch_count = 0

    def note(self, header: BatchHeader) -> None:
        """Take a batch into account that goes into the open block."""
        starts = self.end_offset if self.first_offset is None else self.first_offset
        invariant(
            header.base_offset >= max(starts, self.end_offset),
            "batches of an extent out of order",
            base_offset=header.base_offset,
            end_offset=self.end_offset,
        )
        if self.first is None:
            self.first = header
            if self.first_offset is None:
                self.first_offset = header.base_offset
            self.max_timestamp = header.max_timestamp
        if not self.epochs or self.epochs[-1][0] != header.leader_epoch:
            self.epochs.append((header.leader_epoch, header.base_offset))
        self.end_offset = header.last_offset + 1
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        self.batch_count += 1


class _Block:
    """The batches of the block that is being filled."""

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.batches: list[Buffer] = []
        self.size_bytes = 0
        self.crc = 0
        self.max_timestamp = -1

    def add(self, batch: Buffer, max_timestamp: int) -> None:
        """Put a batch behind those that are here."""
        newest = max_timestamp if not self.batches else max(self.max_timestamp, max_timestamp)
        self.batches.append(batch)
        self.size_bytes += len(batch)
        self.crc = crc32c(batch, self.crc)
        self.max_timestamp = newest


class _Summary(NamedTuple):
    """A finished extent: its entry, but for where the summary goes, and the summary."""

    entry: Entry
    data: bytes


class ExtentFileWriter:
    """One file that is being written; partitions come in the order of (topic id, partition)."""

    def __init__(self, write: Write, cluster_id: bytes, replica_set_id: int) -> None:
        self._write = write
        self._at = 0
        self._extent: _Extent | None = None
        self._block: _Block | None = None
        self._done: list[_Summary] = []
        header = HEADER.pack(MAGIC, VERSION, 0, cluster_id, replica_set_id)
        self._put([header, CRC.pack(crc32c(header))], HEADER_BYTES)

    @property
    def file_bytes(self) -> int:
        """Bytes that were written so far."""
        return self._at

    def begin(
        self,
        topic_partition: TopicPartition,
        generation: int = 0,
        *,
        first_offset: int | None = None,
    ) -> None:
        """Begin the extent of the next partition, or the next one of a range that was rewritten.

        `first_offset` is where such a range begins: at or below its first batch, and where the
        extent before ends if that is of the same partition.
        """
        assert self._extent is None, "the extent before was not ended"
        assert generation or first_offset is None, "only a rewritten range begins before its batch"
        last = self._done[-1].entry if self._done else None
        follows = (
            last is None
            or last.topic_partition < topic_partition
            or (last.topic_partition == topic_partition and last.end_offset == first_offset)
        )
        invariant(follows, "extents of a file out of order", topic_partition=topic_partition)
        self._extent = _Extent(topic_partition, generation, self._at, first_offset)

    def add(self, batch: memoryview, header: BatchHeader | None = None) -> None:
        """Append a whole batch of the partition, whose header has its offset and leader epoch.

        `header` is that of the batch, where the caller has read it. The buffer must not change
        before the next call of `add`, `end` or `finish` that follows a full block.
        """
        extent, block = self._extent, self._block
        assert extent is not None, "no extent was begun"
        header = header or read_header(batch)
        assert header.size_bytes == len(batch), "not one whole batch"
        extent.note(header)
        if block is not None and block.size_bytes + len(batch) > BLOCK_BYTES:
            self._close_block(extent, block)
            block = None
        if block is None:
            block = self._block = _Block(header.base_offset)
        block.add(batch, header.max_timestamp)

    def _close_block(self, extent: _Extent, block: _Block) -> None:
        size = block.size_bytes
        values = block.first_offset, self._at, size, size, block.max_timestamp, block.crc
        for column, value in zip(extent.columns, values, strict=True):
            column.append(value)
        self._put(block.batches, size)
        self._block = None

    @property
    def extent_bytes(self) -> int:
        """Bytes of the batches of the open extent so far."""
        assert self._extent is not None
        waiting = 0 if self._block is None else self._block.size_bytes
        return self._at - self._extent.at + waiting

    def end(
        self,
        aborted: Aborted = NO_ABORTED,
        decided_end: int | None = None,
        *,
        epochs: Sequence[EpochStart] | None = None,
        newest_horizon_ms: int = NO_HORIZON,
    ) -> None:
        """End the extent, which has a batch.

        `aborted` has the transactions whose abort marker is in it. `decided_end` is the offset
        below which markers in it or before it decide everything; None stands for its end.
        `epochs` are those of a rewritten range, whose batches may not tell all; see Notes.
        """
        extent, block = self._extent, self._block
        assert extent is not None
        assert block is not None, "an extent without a batch"
        assert extent.first is not None
        self._close_block(extent, block)
        decided = extent.end_offset if decided_end is None else decided_end
        noted = extent.epochs if epochs is None else epochs
        notes = encode_notes(Notes(noted, aborted, decided))
        data = pack_columns(BLOCK_COLUMNS, extent.columns) + notes
        size = self._at - extent.at
        entry = Entry(
            *extent.topic_partition,
            extent.generation,
            extent.first_offset if extent.first_offset is not None else extent.first.base_offset,
            extent.end_offset,
            extent.first.base_timestamp,
            extent.max_timestamp,
            newest_horizon_ms,
            extent.at,
            size,
            0,
            len(extent.columns[0]),
            len(notes),
            extent.batch_count,
            size,
            crc32c(data),
        )
        self._done.append(_Summary(entry, data))
        self._extent = None

    def finish(self) -> list[Entry]:
        """Write summaries, directory and tail; return the directory."""
        assert self._extent is None, "the last extent was not ended"
        entries = []
        for entry, data in self._done:
            entries.append(entry._replace(summary_at=self._at))
            self._put([data], len(data))
        directory = b"".join(ENTRY.pack(*entry) for entry in entries)
        at, size = self._at, len(directory)
        end = at + size + TAIL.size + TAIL_MAGIC.size
        tail = TAIL.pack(at, size, len(entries), end, crc32c(directory))
        self._put([directory, tail, TAIL_MAGIC.pack(crc32c(tail), MAGIC)], end - at)
        return entries

    def _put(self, buffers: Sequence[Buffer], size: int) -> None:
        self._write(buffers)
        self._at += size
