"""Batches that several reads go through: opened once, and read on from where a read has ended.

    a read begins in a batch ─► is it kept? ─► its block and the places of its records are there
                                   └─ no ────► checksum, decompression, steps from its first record
    a read ends in the middle ─► the batch is kept, until it is read on, or for KEEP_MS

A key is the partition and all of the batch's header: offset, epoch of the leader, length, checksum,
number of records. So nothing stale is read: what takes the place of a batch, after a truncation or
by compaction, has another epoch, or another number of records, and is another batch. Whether it may
be read at all, and where the log begins and ends, says the read that has found its bytes.

Stepping over records takes time: now and then None is yielded in place of one, so that a reader
can leave the rest for a later turn.

Bytes of all batches together have a bound; those that were not read for longest go first. Records
are made as they are read, and are nobody's afterwards.

Source: ours, docs/adr/0153. KIP-101: what two logs have at the same offset and epoch is the
same.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from penstock.record.batch import BATCH_HEADER_BYTES, MAGIC, BatchHeader
from penstock.record.compression import NONE, READER_BOUNDS
from penstock.record.errors import CorruptBatch, UnsupportedMagic
from penstock.record.read import (
    DecodedRecord,
    RawRecord,
    open_batch,
    part,
    read_headers,
    read_raw,
    record_timestamp,
)

KEEP_MS: Final = 5_000
"""What nobody reads on for so long is given back: a consumer comes every few milliseconds."""
BYTES_MAX: Final = 16 << 20
"""Where nobody has said another bound."""
PLACE_BYTES: Final = 8
"""Of a record that was stepped over, or read: its place and its offset."""
ENTRY_BYTES: Final = 1_000
"""Of a batch, beside its bytes and places, about."""
STEPS: Final = 256
"""Records that are stepped over before None is yielded: half a millisecond."""

Where = tuple[bytes, int]
"""A topic's id, and a partition."""


_Key = tuple[Where, bytes]


class OpenBatch:
    """The records of one batch, from any offset on, as often as wanted."""

    __slots__ = ("_block", "_deltas", "_end", "_header", "_is_lent", "_places")

    def __init__(self, header: BatchHeader, batch: memoryview) -> None:
        """Check and decompress it. Raises RecordError kinds."""
        if header.magic != MAGIC:
            raise UnsupportedMagic(header.magic)
        if header.size_bytes != len(batch):
            raise CorruptBatch(f"batch length {header.batch_length} in {len(batch)} bytes")
        self._header = header
        self._block = open_batch(header, batch, READER_BOUNDS)
        self._is_lent = header.codec == NONE
        """Whether the block is a part of the batch, whose memory is another's."""
        self._places = array("I")
        """Where records begin that were read or stepped over, in order."""
        self._deltas = array("I")
        """Their offsets from the batch's first one."""
        self._end = 0
        """Of the last of them."""

    def keep(self) -> int:
        """Make what it has its own; return its memory in bytes, about."""
        if self._is_lent:
            self._block, self._is_lent = memoryview(bytes(self._block)), False
        held = memoryview(self._block.obj).nbytes  # a decompressed block may have room behind it
        return held + PLACE_BYTES * len(self._places) + ENTRY_BYTES

    def records(self, first: int) -> Iterator[DecodedRecord | None]:
        """Yield the records from offset `first` on, and None now and then before the first.

        Raises CorruptBatch, also after some records.
        """
        wanted = first - self._header.base_offset
        places, deltas, count = self._places, self._deltas, self._header.record_count
        index = bisect_left(deltas, wanted) if wanted > 0 else 0
        while index < count:
            is_new = index == len(places)
            raw = self._step() if is_new else read_raw(self._block, places[index])
            index += 1
            if raw.offset_delta >= wanted:
                yield self._record(raw)
            elif not index % STEPS:
                yield None
        if self._end != len(self._block):
            raise CorruptBatch(f"{len(self._block) - self._end} bytes follow the last record")

    def _step(self) -> RawRecord:
        """Note where the next record is, and return where its parts are."""
        raw = read_raw(self._block, self._end)
        previous = self._deltas[-1] if self._deltas else -1
        if not previous < raw.offset_delta <= self._header.last_offset_delta:
            raise CorruptBatch(f"offset delta {raw.offset_delta} after {previous}")
        self._places.append(self._end)
        self._deltas.append(raw.offset_delta)
        self._end = raw.end
        return raw

    def _record(self, raw: RawRecord) -> DecodedRecord:
        header, block = self._header, self._block
        return DecodedRecord(
            header.base_offset + raw.offset_delta,
            record_timestamp(header, raw.timestamp_delta),
            part(block, raw.key),
            part(block, raw.value),
            tuple(read_headers(block, raw.headers_at, raw.end)),
        )


class _Kept(NamedTuple):
    opened: OpenBatch
    size: int
    until_ms: int


class KeptBatches:
    """See the module; one for all readers of a node. Used from one thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms` tells monotonic time."""
        self._now_ms = now_ms
        self._kept: dict[_Key, _Kept] = {}
        """The one that was read last is the last."""
        self.bytes_max = BYTES_MAX
        self.bytes_now = 0
        self.opened = 0
        """Batches that were opened anew."""
        self.read_on = 0
        """Reads that went on in one that was kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def records(
        self, where: Where, header: BatchHeader, batch: memoryview, first: int
    ) -> Iterator[DecodedRecord | None]:
        """Yield the records of a batch of partition `where` from offset `first` on.

        None is yielded now and then before the first one. If its reader stops in the middle the
        batch is kept. Raises RecordError kinds.
        """
        key = where, bytes(batch[:BATCH_HEADER_BYTES])
        opened = self._take(key)
        if opened is None:
            opened = OpenBatch(header, batch)
            self.opened += 1
        else:
            self.read_on += 1
        try:
            yield from opened.records(first)
        except GeneratorExit:
            self._keep(key, opened)
            raise

    def expire(self) -> None:
        """Give back what nobody has read for long."""
        now_ms = self._now_ms()
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            if oldest.until_ms > now_ms:
                return
            self._take(key)

    def _take(self, key: _Key) -> OpenBatch | None:
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self.bytes_now -= found.size
        return found.opened

    def _keep(self, key: _Key, opened: OpenBatch) -> None:
        self._take(key)  # another reader's, which has been here meanwhile
        size = opened.keep()
        if size > self.bytes_max:
            return
        self._kept[key] = _Kept(opened, size, self._now_ms() + KEEP_MS)
        self.bytes_now += size
        while self.bytes_now > self.bytes_max:
            self._take(next(iter(self._kept)))
