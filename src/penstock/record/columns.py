"""From a fetched run of batches to columns in the memory layout of Arrow.

    ColumnChunk: key, value (binary, nullable), offset (int64), timestamp (int64, us since 1970),
    timestamp_type (int32, 0 create, 1 log append), headers (list of name and value) when asked for

The idea: a caller with pyarrow wraps the buffers without a copy (`pa.Array.from_buffers`); this
room does not need pyarrow. A `ColumnBuilder` gets one batch after another and fills a chunk until
it is full. There are two twins, `_columns.pyx` in C and `column_builder.py` in Python, with the
same tests; the compiled one is used if it was built. A chunk holds at most `max_bytes` of keys,
values and headers, so that Arrow's int32 positions cannot overflow; a larger row is a chunk alone.

Source: Arrow columnar format 1.0 (validity bitmaps with the lowest bit first, n + 1 positions).
Control batches are left out. Times beyond an int64 of us are clamped: producers that write
nanoseconds are common enough, and must not stop a pipeline.
It deliberately does not know Spark's column names.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.record.batch import BatchHeader
from penstock.record.column_builder import PythonColumnBuilder
from penstock.record.column_chunk import ColumnChunk, ColumnOptions, OffsetRange
from penstock.record.compression import READER_BOUNDS, Bounds
from penstock.record.errors import RecordError
from penstock.record.read import iter_batches, open_batch, unreadable

__all__ = ["IS_COMPILED", "ColumnChunk", "ColumnOptions", "decode_columns"]


class ColumnBuilder(Protocol):
    """Interface of both twins; `PythonColumnBuilder` describes it."""

    rows: int

    def begin(self, header: BatchHeader, block: memoryview) -> None: ...
    def fill(self) -> bool: ...
    def take(self) -> ColumnChunk: ...


_MakeBuilder = Callable[[OffsetRange, ColumnOptions], ColumnBuilder]
COMPILED_BUILDER: _MakeBuilder | None
try:
    from penstock.record._columns import CompiledColumnBuilder
except ImportError:  # no C compiler at installation
    COMPILED_BUILDER = None
else:
    COMPILED_BUILDER = CompiledColumnBuilder

IS_COMPILED = COMPILED_BUILDER is not None
"""Whether the compiled twin is used, which is tens of times faster."""
DEFAULT_BUILDER: _MakeBuilder = COMPILED_BUILDER or PythonColumnBuilder


def decode_columns(
    data: memoryview,
    start_offset: int,
    end_offset: int,
    *,
    options: ColumnOptions = ColumnOptions(),  # noqa: B008  a NamedTuple cannot change
    bounds: Bounds = READER_BOUNDS,
    make_builder: _MakeBuilder = DEFAULT_BUILDER,
) -> Iterator[ColumnChunk]:
    """Yield chunks of the records in [start_offset, end_offset) of a run of whole batches.

    A last batch that is cut off is ignored; where to fetch next is `run_end` of the same data.
    Chunks hold copies, so `data` may be used again when the iterator has ended. No chunk is empty.
    Raises UnreadableBatch for the first batch that cannot be read, when all records before it
    were yielded, and other RecordError kinds for bytes that are no batches.
    """
    resume_at = start_offset
    builder = make_builder(OffsetRange(start_offset, end_offset), options)
    for header, batch in iter_batches(data):
        if header.last_offset < start_offset or header.is_control:
            continue
        if header.base_offset >= end_offset:
            break
        try:
            builder.begin(header, open_batch(header, batch, bounds))
            full: list[ColumnChunk] = []  # yielded only once the whole batch could be read
            while not builder.fill():
                full.append(builder.take())
        except RecordError as error:
            failed = unreadable(header, batch, error)
            # the builder also holds rows of this batch: the rows before it are read again
            yield from decode_columns(
                data,
                resume_at,
                header.base_offset,
                options=options,
                bounds=bounds,
                make_builder=make_builder,
            )
            raise failed from error
        if full:
            resume_at = _end_of(full[-1])
            yield from full
    if builder.rows:
        yield builder.take()


def _end_of(chunk: ColumnChunk) -> int:
    """Return the offset after the last row of a chunk."""
    return int.from_bytes(chunk.offset[-8:], sys.byteorder, signed=True) + 1
