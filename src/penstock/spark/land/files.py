"""Writes the rows of one offset range as Parquet files, one per time partition.

Names are `<partition>-<start>-<end>-<n>-<attempt>`: the planned range and the number of the file
in it. Producers set record timestamps, so one range can have records of many hours. At most
WRITERS_OPEN_MAX files are open at a time: the least recently used one is closed, and if its hour
occurs again another file is begun. Every file is synced before it is reported.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.land.tables.port import DataFile, FileLayout, time_directory
from penstock.spark.ranges import OffsetRange

WRITERS_OPEN_MAX = 16
ROW_GROUP_BYTES = 16 << 20
"""Rows are buffered per file up to this many bytes; a row group is what readers skip or read."""
_US_PER_HOUR = 3_600_000_000
_HOURS = (-719_162 * 24, 2_932_897 * 24 - 1)
"""Hours since 1970 that a date can express: year 1 to 9999. Other times count as the nearest."""


class FileTarget(NamedTuple):
    """Directory and schema of one table's files, and its columns for time and offset."""

    layout: FileLayout
    partition_by: str
    timestamp_column: str
    offset_column: str


class RangeWriter:
    """The files of one table for one range."""

    def __init__(self, target: FileTarget, wanted: OffsetRange) -> None:
        self._target = target
        self._stem = f"{wanted.partition:05d}-{wanted.start:020d}-{wanted.end:020d}"
        self._open: dict[int | None, _OpenFile] = {}
        self._count = 0
        self._finished: list[DataFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows; empty batches are fine."""
        if rows.num_rows == 0:
            return
        for slot, part in self._split(rows):
            file = self._open.pop(slot, None) or self._start(slot, rows.schema)
            self._open[slot] = file  # now the most recently used
            file.write(part)

    def finish(self) -> list[DataFile]:
        """Close all files and return them."""
        while self._open:
            self._close_oldest()
        return self._finished

    def discard(self) -> None:
        """Close the files that are open, whole or not; nothing that is left may be used."""
        for file in self._open.values():
            file.discard()
        self._open.clear()

    def _split(self, rows: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        if self._target.partition_by == "none":
            yield None, rows
            return
        microseconds = rows.column(self._target.timestamp_column).cast(pa.int64())
        unit = _US_PER_HOUR * (24 if self._target.partition_by == "day" else 1)
        lowest, highest = pc.min_max(microseconds).values()
        first, last = lowest.as_py() // unit, highest.as_py() // unit
        if first == last:
            yield first, rows
            return
        slots = _floor_divide(microseconds, unit)
        for slot in pc.unique(slots).to_pylist():
            yield slot, rows.filter(pc.equal(slots, slot))

    def _start(self, slot: int | None, schema: pa.Schema) -> "_OpenFile":
        if len(self._open) >= WRITERS_OPEN_MAX:
            self._close_oldest()
        day, hour = self._time_of(slot)
        layout = self._target.layout
        name = f"{self._stem}-{self._count}-{layout.attempt}{layout.suffix}"
        self._count += 1
        path = time_directory(day, hour) + name
        file = _OpenFile(Path(layout.directory), path, schema, self._target.offset_column)
        file.time = (day, hour)
        return file

    def _time_of(self, slot: int | None) -> tuple[str | None, int | None]:
        if slot is None:
            return None, None
        by_day = self._target.partition_by == "day"
        hours = min(max(slot * 24 if by_day else slot, _HOURS[0]), _HOURS[1])
        day = pa.scalar(hours // 24, pa.int32()).cast(pa.date32()).as_py().isoformat()
        return day, None if by_day else hours % 24

    def _close_oldest(self) -> None:
        slot = next(iter(self._open))
        file = self._open.pop(slot)
        self._finished.append(file.close())


class _OpenFile:
    """One Parquet file being written."""

    def __init__(self, root: Path, path: str, schema: pa.Schema, offset_column: str) -> None:
        self._full, self._path, self._offset_column = root / path, path, offset_column
        self.time: tuple[str | None, int | None] = (None, None)
        self._full.parent.mkdir(parents=True, exist_ok=True)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._rows = 0
        self._first = self._last = -1
        self._schema = schema
        self._file = self._full.open("wb")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="snappy",
            use_dictionary=_repetitive(schema),
            write_statistics=_comparable(schema),
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, in order of offsets."""
        offsets = rows.column(self._offset_column)
        if self._rows == 0:
            self._first = offsets[0].as_py()
        self._last = offsets[-1].as_py()
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting, schema=self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._waiting, self._waiting_bytes = [], 0

    def discard(self) -> None:
        """Close the file as it is."""
        self._writer.close()
        self._file.close()

    def close(self) -> DataFile:
        """Write the buffered rows and sync the file."""
        if self._waiting:
            self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        size = self._full.stat().st_size
        return DataFile(self._path, size, self._rows, *self.time, self._first, self._last)


def _repetitive(schema: pa.Schema) -> list[str]:
    """Return the columns to dictionary-encode: not keys and raw values, which seldom repeat."""
    plain = {"key", "value", "_key", "offset", "_offset", "timestamp", "_timestamp"}
    return [f.name for f in schema if f.name not in plain and not pa.types.is_nested(f.type)]


def _comparable(schema: pa.Schema) -> list[str]:
    """Return the columns for which minimum and maximum help a reader: not raw bytes."""
    return [
        f.name for f in schema if not (pa.types.is_nested(f.type) or pa.types.is_binary(f.type))
    ]


def _floor_divide(values: pa.Array, unit: int) -> pa.Array:
    """Divide integers, rounding down; Arrow's division rounds towards zero."""
    quotient = pc.divide(values, unit)
    is_below = pc.less(values, pc.multiply(quotient, unit))
    return pc.subtract(quotient, is_below.cast(pa.int64()))
