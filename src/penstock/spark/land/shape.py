"""The table's columns, and how a batch of records is converted to them.

    raw      key, value, topic, partition, offset, timestamp, timestampType, headers (as the source)
    text     key and value as strings, then _partition, _offset, _timestamp
    JSON     the fields of the schema, then _key, _partition, _offset, _timestamp

Dead letters have the same columns in every job: the record's place, the reason and its bytes. A
batch that can not be read is one letter, with its first offset, and the stored batch as the value.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.batch import read_header
from penstock.record.read import INT64_MAX
from penstock.spark.columns import ARROW_COLUMNS, arrow_schema
from penstock.spark.errors import CorruptRecords, OptionError
from penstock.spark.land.fit import Convert, Fitted, JsonConverter, fit, text_converter

RAW_COLUMNS = tuple(ARROW_COLUMNS)
FITTED_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
_PLACE = pa.schema(
    [
        pa.field("_partition", ARROW_COLUMNS["partition"]),
        pa.field("_offset", ARROW_COLUMNS["offset"]),
        pa.field("_timestamp", ARROW_COLUMNS["timestamp"]),
    ]
)
_KEY = pa.field("_key", pa.binary())
TEXT_FIELDS = pa.schema([pa.field("value", pa.string())])
DEAD_SCHEMA = pa.schema(
    [
        *_PLACE,
        pa.field("reason", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How records become rows. `fields` is None for raw."""

    kind: str
    """raw, text or json."""
    fields: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table's data files."""
        if self.kind == "raw":
            return arrow_schema(RAW_COLUMNS)
        fields = [*(self.fields or TEXT_FIELDS)]
        taken = {field.name for field in fields} & {_KEY.name, *_PLACE.names}
        if taken:
            raise OptionError(
                f"--schema: the column {taken.pop()} is made by land; rename the field"
            )
        return pa.schema([*fields, _KEY, *_PLACE])

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns that are read from the topic."""
        return RAW_COLUMNS if self.kind == "raw" else FITTED_COLUMNS

    @property
    def timestamp_column(self) -> str:
        return "timestamp" if self.kind == "raw" else "_timestamp"

    @property
    def offset_column(self) -> str:
        return "offset" if self.kind == "raw" else "_offset"


class Shaper:
    """Converts batches of the source to rows of the table and dead letters."""

    def __init__(self, shape: Shape) -> None:
        self._schema = shape.schema
        self._convert: Convert | None = None
        if shape.kind == "text":
            self._convert = text_converter
        elif shape.kind == "json":
            assert shape.fields is not None, "JSON without fields"
            self._convert = JsonConverter(shape.fields)

    def shape(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Return (rows, dead letters); the latter are None if there are none."""
        if self._convert is None:
            return batch, None
        fitted = fit(batch.column("value"), self._convert)
        kept = batch if fitted.rows is None else batch.take(fitted.rows)
        names = ("key", "partition", "offset", "timestamp")
        place = [kept.column(name) for name in names]
        rows = pa.RecordBatch.from_arrays([*fitted.columns.columns, *place], schema=self._schema)
        return rows, _dead(batch, fitted) if fitted.rejected else None


def _dead(batch: pa.RecordBatch, fitted: Fitted) -> pa.RecordBatch:
    rejected = sorted(fitted.rejected)
    bad = batch.take(pa.array([item.row for item in rejected], pa.int64()))
    reasons = pa.array([item.reason for item in rejected], pa.string())
    place = [bad.column(name) for name in ("partition", "offset", "timestamp")]
    columns = [*place, reasons, bad.column("key"), bad.column("value")]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_SCHEMA)


def corrupt_letter(found: CorruptRecords) -> pa.RecordBatch:
    """Return the dead letter of an unreadable batch; its time is the header's largest timestamp."""
    time_us = read_header(memoryview(found.batch)).max_timestamp * 1000
    reason = f"offsets {found.first} to {found.last}: {found.reason}"
    row = [found.partition, found.first, min(max(time_us, 0), INT64_MAX), reason, None, found.batch]
    arrays = [pa.array([one], field.type) for one, field in zip(row, DEAD_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=DEAD_SCHEMA)


def drop_before(batch: pa.RecordBatch, column: str, offset: int) -> pa.RecordBatch:
    """Return the rows at or after `offset`; the table already has the others."""
    return batch.filter(pc.greater_equal(batch.column(column), offset))
