"""Decoded batches as buffers in Arrow's layout, and the limits of one chunk.

    BinaryColumn   validity (bit per row, or None), positions (int32, rows + 1), data
    HeadersColumn  positions (int32, rows + 1) into names and values, which are BinaryColumns

Numbers are in the machine's byte order, as in Arrow; a row without headers has an empty list.

Source: Arrow columnar format, variable-size binary and list layouts.
"""

from typing import NamedTuple

Buffer = bytes | bytearray
CHUNK_BYTES_CAP = 1 << 30
"""Largest limits that may be set for a chunk: well below 2 GiB, the limit of int32 positions."""


class ColumnOptions(NamedTuple):
    """Limits of one chunk, and whether headers are wanted. 1 MiB keeps a chunk in the L2 cache."""

    max_bytes: int = 1 << 20
    max_rows: int = 1 << 16
    with_headers: bool = False

    def check(self) -> None:
        """Assert that the limits are valid; they come from the caller, not from data."""
        assert 0 < self.max_bytes <= CHUNK_BYTES_CAP, self.max_bytes
        assert 0 < self.max_rows <= CHUNK_BYTES_CAP, self.max_rows


class OffsetRange(NamedTuple):
    """Offsets wanted: `start` inclusive, `end` exclusive."""

    start: int
    end: int


class BinaryColumn(NamedTuple):
    """Byte strings; `validity` is None when `null_count` is 0."""

    validity: Buffer | None
    positions: Buffer
    data: Buffer
    null_count: int


class HeadersColumn(NamedTuple):
    """A list of (name, value) per row, flattened: `pairs` of them in all rows together."""

    positions: Buffer
    pairs: int
    names: BinaryColumn
    values: BinaryColumn


class ColumnChunk(NamedTuple):
    """Some rows. `offset` int64, `timestamp` int64 us, `timestamp_type` int32, never null."""

    rows: int
    key: BinaryColumn
    value: BinaryColumn
    offset: Buffer
    timestamp: Buffer
    timestamp_type: Buffer
    headers: HeadersColumn | None
