"""The Python twin of `_columns.pyx`: fills Arrow buffers from records blocks, one row at a time.

The idea: `begin` names a batch, `fill` decodes it until it is used up (True) or the chunk is full
(False), `take` hands the chunk over and starts the next. A batch may span many chunks and a chunk
many batches.

Source: as in `columns.py`; the rules for damaged data are those of `read.iter_raw`.
"""

from array import array

from penstock.record.batch import BatchHeader
from penstock.record.column_chunk import (
    BinaryColumn,
    ColumnChunk,
    ColumnOptions,
    HeadersColumn,
    OffsetRange,
)
from penstock.record.errors import CorruptBatch
from penstock.record.read import (
    INT64_MAX,
    RawRecord,
    iter_header_parts,
    read_raw,
    record_timestamp,
)

_US_PER_MS = 1000
_MS_MAX = INT64_MAX // _US_PER_MS
_Span = tuple[int, int] | None


class PythonColumnBuilder:
    """Collects rows with offsets in `wanted`, up to the limits of `options`."""

    def __init__(self, wanted: OffsetRange, options: ColumnOptions) -> None:
        options.check()
        self._start, self._end = wanted
        self._options = options
        self._block = memoryview(b"")
        self._at = self._left = 0
        self._previous_delta = -1
        self._header: BatchHeader | None = None
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._bytes = 0
        self._key, self._value = _Binary(), _Binary()
        self._offset, self._timestamp, self._type = array("q"), array("q"), array("i")
        self._header_positions = array("i", [0])
        self._names, self._values = _Binary(), _Binary()

    def begin(self, header: BatchHeader, block: memoryview) -> None:
        """Go on with the records of `block`, the decompressed records of the batch of `header`."""
        self._header, self._block = header, block
        self._at, self._left = 0, header.record_count
        self._previous_delta = -1

    def fill(self) -> bool:
        """Decode until the batch is used up (True) or the chunk is full (False).

        Raises CorruptBatch; the builder must not be used any more then.
        """
        header = self._header
        assert header is not None, "fill before begin"
        while self._left:
            raw = read_raw(self._block, self._at)
            if not self._previous_delta < raw.offset_delta <= header.last_offset_delta:
                raise CorruptBatch(f"offset delta {raw.offset_delta} after {self._previous_delta}")
            offset = header.base_offset + raw.offset_delta
            if offset >= self._end:
                return True
            if offset >= self._start and not self._append(header, raw, offset):
                return False
            self._previous_delta, self._at = raw.offset_delta, raw.end
            self._left -= 1
        if self._at != len(self._block):
            raise CorruptBatch(f"{len(self._block) - self._at} bytes follow the last record")
        return True

    def _append(self, header: BatchHeader, raw: RawRecord, offset: int) -> bool:
        """Take a row; False when there is no room. The first row of a chunk always has room."""
        size = raw.end - self._at
        if self.rows and (
            self._bytes + size > self._options.max_bytes or self.rows >= self._options.max_rows
        ):
            return False
        if self._options.with_headers:
            for name, value in iter_header_parts(self._block, raw.headers_at, raw.end):
                self._names.append(self._block, name)
                self._values.append(self._block, value)
            self._header_positions.append(self._names.count)
        self._key.append(self._block, raw.key)
        self._value.append(self._block, raw.value)
        timestamp_ms = record_timestamp(header, raw.timestamp_delta)
        self._offset.append(offset)
        self._timestamp.append(max(-_MS_MAX, min(_MS_MAX, timestamp_ms)) * _US_PER_MS)
        self._type.append(int(header.is_log_append_time))
        self.rows += 1
        self._bytes += size
        return True

    def take(self) -> ColumnChunk:
        """Hand over the rows so far, and begin a new chunk."""
        chunk = ColumnChunk(
            self.rows,
            self._key.column(),
            self._value.column(),
            self._offset.tobytes(),
            self._timestamp.tobytes(),
            self._type.tobytes(),
            self._headers_column() if self._options.with_headers else None,
        )
        self._clear()
        return chunk

    def _headers_column(self) -> HeadersColumn:
        return HeadersColumn(
            self._header_positions.tobytes(),
            self._names.count,
            self._names.column(),
            self._values.column(),
        )


class _Binary:
    """A binary column while it grows."""

    def __init__(self) -> None:
        self.count = 0
        self._positions = array("i", [0])
        self._data = bytearray()
        self._validity = bytearray()
        self._null_count = 0

    def append(self, block: memoryview, span: _Span) -> None:
        if self.count & 7 == 0:
            self._validity.append(0)
        if span is None:
            self._null_count += 1
        else:
            self._validity[-1] |= 1 << (self.count & 7)
            self._data += block[span[0] : span[1]]
        self._positions.append(len(self._data))
        self.count += 1

    def column(self) -> BinaryColumn:
        validity = bytes(self._validity) if self._null_count else None
        return BinaryColumn(validity, self._positions.tobytes(), self._data, self._null_count)
