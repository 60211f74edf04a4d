"""A part of a run of stored batches, from an offset on, as batches that cost little to read.

    run        batch    batch (zstd, 60 MB of records)    batch    batch …
    excerpt             batch: 256 KiB of its records, plain, from the offset on

Who wants a few messages of a batch would else decompress all of it and step over what comes before
them, for each few again. A batch of 2 KB may hold a million records, and 60 MB. So an excerpt is
made by compiled code, here if that is little work, and else by a worker.

A batch that can not be read is in it without records, and is named: who reads goes on behind it.
One whose checksum does not hold is damage, and not a producer's mistake: it is raised.

Source: ours; Kafka's brokers give out whole batches and leave all of this to clients.
"""

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.record.batch import (
    BATCH_HEADER_BYTES,
    CHECKED_AT,
    CODEC_MASK,
    LOG_OVERHEAD,
    BatchHeader,
)
from penstock.record.compression import GZIP, NONE, Bounds, decompress, least_unpacked
from penstock.record.errors import BatchTooLarge, CorruptBatch, RecordError
from penstock.record.read import INT64_MAX, iter_batches
from penstock.record.scan import COMPILED_CUT, CORRUPT, MORE, cut

HERE_WORK: Final = 1 << 20
"""Bytes that are walked through on the loop: 2 ms of records of the least size."""
UNPACKED_HERE_MAX: Final = 256 << 10
GZIP_HERE_MAX: Final = 64 << 10
BATCHES_MAX: Final = 400
"""Of one excerpt; each costs some microseconds. What follows is in the next one."""
RECORDS_HERE_MAX: Final = 1 << 20 if COMPILED_CUT else 200
"""Without the compiled twin a record costs some microseconds."""

_LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT, _DELTA_AT, _COUNT_AT = 8, 17, 21, 23, 57
_INT32, _UINT32, _INT16 = Struct(">i"), Struct(">I"), Struct(">h")


class Part(NamedTuple):
    """What is wanted of a run: from an offset on, one record at least, and no more than needed."""

    first: int
    bytes_max: int
    records_max: int


class Unreadable(NamedTuple):
    """Offsets, both inclusive, whose records can not be read."""

    first: int
    last: int
    reason: str


class Excerpt(NamedTuple):
    """Whole batches, none of them compressed, and what of them could not be read.

    It has less than was wanted where that saves work; never nothing of a run that has some.
    """

    data: memoryview
    unreadable: list[Unreadable]


def excerpt_here(data: memoryview, part: Part) -> Excerpt | None:
    """Return the excerpt if that is little work, as far as can be told; else None.

    Raises CorruptBatch for damage.
    """
    return _Making(part, None).run(data)


def excerpt_of(data: memoryview, part: Part, bounds: Bounds) -> Excerpt:
    """Return the excerpt, whatever the work. Raises CorruptBatch for damage."""
    made = _Making(part, bounds).run(data)
    assert made is not None, "only what is made here has a bound of work"
    return made


class _MuchWork(Exception):
    """It is not to be done here."""


class _Making:
    """One excerpt."""

    def __init__(self, part: Part, bounds: Bounds | None) -> None:
        """Without bounds only little work is done."""
        self._first = part.first
        self._bytes_left, self._records_left = part.bytes_max, part.records_max
        self._bounds = bounds
        self._work_left = HERE_WORK
        self._out = bytearray()
        self._unreadable: list[Unreadable] = []

    def run(self, data: memoryview) -> Excerpt | None:
        """Return the excerpt; None if it is much work."""
        batches_left = BATCHES_MAX
        try:
            for header, batch in iter_batches(data):
                if header.last_offset < self._first:
                    continue
                batches_left -= 1
                if header.is_control:
                    self._out += batch
                elif not self._add(header, batch) or not batches_left:
                    break
        except _MuchWork:
            if not self._out:
                return None  # else the next excerpt begins with it
        return Excerpt(memoryview(self._out), self._unreadable)

    def _add(self, header: BatchHeader, batch: memoryview) -> bool:
        """Add what is wanted of a batch; whether more is wanted."""
        if crc32c(batch[CHECKED_AT:]) != header.crc:
            raise CorruptBatch("CRC does not match")
        block, reason = memoryview(b""), ""
        start = end = taken = 0
        first_delta = max(self._first - header.base_offset, 0)
        last, state = -1, CORRUPT
        try:
            block = self._opened(header, batch)
        except RecordError as error:
            reason = str(error)
        else:
            start, end, taken, last, state = cut(
                block,
                header.record_count,
                header.last_offset_delta,
                first_delta,
                self._bytes_left,
                self._records_left,
            )
        if state == CORRUPT and not taken:
            reason = reason or "its records are not what its header says"
            begun = header.base_offset + first_delta
            self._unreadable.append(Unreadable(begun, header.last_offset, reason))
        is_cut = state == MORE or (state == CORRUPT and taken > 0)
        last_delta = last if is_cut else header.last_offset_delta
        self._append(batch, block[start:end], taken, last_delta)
        self._bytes_left -= end - start
        self._records_left -= taken
        return not is_cut and self._bytes_left > 0 and self._records_left > 0

    def _opened(self, header: BatchHeader, batch: memoryview) -> memoryview:
        """Return the records of a batch. Raises RecordError kinds, _MuchWork."""
        delta, count = header.last_offset_delta, header.record_count
        if delta < 0 or not 0 <= count <= delta + 1:
            raise CorruptBatch(f"record count {count} with last offset delta {delta}")
        if not 0 <= header.base_offset <= INT64_MAX - delta - 1:
            raise CorruptBatch(f"base offset {header.base_offset}")
        data, codec = batch[BATCH_HEADER_BYTES:], header.codec
        if self._bounds is not None:
            return decompress(codec, data, self._bounds)
        if count > RECORDS_HERE_MAX:
            raise _MuchWork
        block = data if codec == NONE else _unpacked_here(codec, data)
        self._work_left -= len(block)
        if self._work_left < 0:
            raise _MuchWork
        return block

    def _append(
        self, batch: memoryview, records: memoryview, count: int, last_offset_delta: int
    ) -> None:
        """Append a batch with these records, which is like `batch` in all else."""
        header = bytearray(batch[:BATCH_HEADER_BYTES])
        (attributes,) = _INT16.unpack_from(header, _ATTRIBUTES_AT)
        _INT16.pack_into(header, _ATTRIBUTES_AT, attributes & ~CODEC_MASK)
        _INT32.pack_into(header, _LENGTH_AT, BATCH_HEADER_BYTES - LOG_OVERHEAD + len(records))
        _INT32.pack_into(header, _DELTA_AT, last_offset_delta)
        _INT32.pack_into(header, _COUNT_AT, count)
        checked = crc32c(records, crc32c(header[CHECKED_AT:]))
        _UINT32.pack_into(header, _CRC_AT, checked)
        self._out += header
        self._out += records


def _unpacked_here(codec: int, data: memoryview) -> memoryview:
    """Decompress a block that is not large. Raises RecordError kinds, _MuchWork."""
    most = GZIP_HERE_MAX if codec == GZIP else UNPACKED_HERE_MAX
    if len(data) > most or least_unpacked(codec, data, most + 1) > most:
        raise _MuchWork
    try:
        return decompress(codec, data, Bounds(most, ratio_free_bytes=most))
    except BatchTooLarge as error:
        raise _MuchWork from error


assert _COUNT_AT + _INT32.size == BATCH_HEADER_BYTES
