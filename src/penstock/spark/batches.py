"""Column chunks of `penstock.record` as Arrow record batches, without copying a value.

`penstock.record` lays its buffers out as Arrow does and does not import pyarrow; here they get
types and names. Topic and partition are the same in every row of a range and are made once per row
count.
"""

from collections.abc import Iterator

import pyarrow as pa

from penstock.record.column_chunk import BinaryColumn, ColumnChunk, ColumnOptions, HeadersColumn
from penstock.record.columns import decode_columns
from penstock.spark.columns import ARROW_COLUMNS, ARROW_HEADERS, arrow_schema
from penstock.spark.ranges import OffsetRange

BATCH_BYTES = 1 << 20
"""Bytes of keys, values and headers per Arrow batch; 1 MiB was the fastest way into the JVM."""


class BatchMaker:
    """Turns raw fetched bytes of one range into Arrow batches with the requested columns."""

    def __init__(self, wanted: OffsetRange, columns: tuple[str, ...]) -> None:
        self._range = wanted
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._options = ColumnOptions(max_bytes=BATCH_BYTES, with_headers="headers" in columns)

    def batches(self, data: memoryview, position: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of `data` with offsets from `position` to `end` (exclusive)."""
        for chunk in decode_columns(data, position, end, options=self._options):
            arrays = [self._column(name, chunk) for name in self._columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, chunk: ColumnChunk) -> pa.Array:  # noqa: PLR0911  one per column
        rows, kind = chunk.rows, ARROW_COLUMNS[name]
        match name:
            case "key":
                return _binary(chunk.key, rows, kind)
            case "value":
                return _binary(chunk.value, rows, kind)
            case "topic":
                return pa.repeat(pa.scalar(self._range.topic, kind), rows)
            case "partition":
                return pa.repeat(pa.scalar(self._range.partition, kind), rows)
            case "offset":
                return _numbers(chunk.offset, rows, kind)
            case "timestamp":
                return _numbers(chunk.timestamp, rows, kind)
            case "timestampType":
                return _numbers(chunk.timestamp_type, rows, kind)
            case _:
                assert chunk.headers is not None, "headers were not decoded"
                return _headers(chunk.headers, rows)


def _numbers(buffer: bytes | bytearray, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)])


def _binary(column: BinaryColumn, rows: int, kind: pa.DataType) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.positions), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _headers(column: HeadersColumn, rows: int) -> pa.Array:
    positions, count, name_bytes, value_bytes = column
    names = _utf8(_binary(name_bytes, count, pa.binary()))
    values = _binary(value_bytes, count, pa.binary())
    fields = list(ARROW_HEADERS.value_type)
    pairs = pa.StructArray.from_arrays([names, values], fields=fields)
    buffers = [None, pa.py_buffer(positions)]
    return pa.Array.from_buffers(ARROW_HEADERS, rows, buffers, 0, children=[pairs])


def _utf8(names: pa.Array) -> pa.Array:
    """Return header names as strings: they may be invalid UTF-8, which must not crash Spark."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        mended = [
            None if name is None else name.decode("utf-8", "replace") for name in names.to_pylist()
        ]
        return pa.array(mended, pa.string())
