"""Chunks: a range of offsets of one partition as Parquet files, one for each day with records.

The rows are those of `penstock land` with the schema raw, and the files are written by the same
code, in a directory of this machine first, since the range ends where there are bytes enough. A
record lies in the file of its own day, UTC; so the files of a chunk have to be put together again
to read it in the order of offsets.

Reading checks everything that is known: that a file is there, its size and checksum, that the rows
are of the partition, in order, within the range, and as many as were written.

Source: docs/adr/0164; spark/land/files.py.
"""

from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.archive.entries import NO_TIME_MS, ArchivedFile, Chunk, digest
from penstock.archive.errors import ArchiveError, ArchiveLies
from penstock.archive.files import ArchiveFiles, DataName, data_name
from penstock.spark.columns import ARROW_COLUMNS, arrow_schema
from penstock.spark.land.files import FileTarget, RangeWriter
from penstock.spark.land.tables.port import DataFile, FileLayout
from penstock.spark.ranges import OffsetRange

COLUMNS = tuple(ARROW_COLUMNS)
SCHEMA = arrow_schema(COLUMNS)
US_PER_MS = 1000


class Source(NamedTuple):
    """What rows must be of."""

    topic: str
    partition: int


class ChunkWriter:
    """Takes the rows of one partition from an offset on, and makes a chunk of them.

    Use it as a context manager: what it was not asked to finish is left where it is.
    """

    def __init__(self, files: ArchiveFiles, scratch: Path, wanted: OffsetRange, run: str) -> None:
        """`scratch` is a directory of this machine for files until the chunk ends."""
        self._files, self._scratch, self._run = files, scratch, run
        self._wanted = wanted
        layout = FileLayout(directory=str(scratch), attempt=run, suffix=".parquet")
        self._writer = RangeWriter(FileTarget(layout, "day", "timestamp", "offset"), wanted)
        self._first_ms = self._last_ms = NO_TIME_MS
        self.size_bytes = self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.discard()

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, in order of offsets; there is at least one."""
        lowest, highest = (
            one.as_py() // US_PER_MS
            for one in pc.min_max(rows.column("timestamp").cast(pa.int64())).values()
        )
        self._first_ms = min(self._first_ms, lowest) if self.rows else lowest
        self._last_ms = max(self._last_ms, highest)
        self._writer.write(rows)
        self.size_bytes += rows.nbytes
        self.rows += rows.num_rows

    def finish(self, end: int, gap_start: int) -> Chunk:
        """Put the files durably, and return the chunk up to `end` (exclusive). Raises StoreError.

        It counts once an entry names it.
        """
        name = DataName(self._wanted.partition, self._wanted.start, end)
        written = self._writer.finish()
        files = tuple(self._put(file, name, number) for number, file in enumerate(written))
        return Chunk(
            partition=name.partition,
            start=name.start,
            end=end,
            gap_start=gap_start,
            first_ms=self._first_ms,
            last_ms=self._last_ms,
            files=files,
        )

    def _put(self, file: DataFile, chunk: DataName, number: int) -> ArchivedFile:
        path = self._scratch / file.path
        data = path.read_bytes()
        path.unlink()
        assert file.day is not None, file
        name = data_name(file.day, chunk, number, self._run)
        if not self._files.put_new(name, data):
            raise ArchiveError(f"{name} is there already with other bytes: run again")
        return ArchivedFile(
            name=name,
            size_bytes=len(data),
            sha256=digest(data),
            rows=file.rows,
            first_offset=file.offset_first,
            last_offset=file.offset_last,
        )


def read_chunk(files: ArchiveFiles, chunk: Chunk, topic: str) -> pa.Table:
    """Return the rows of a chunk in order of offsets. Raises ArchiveLies, StoreError."""
    source = Source(topic, chunk.partition)
    return _in_order(chunk, [read_file(files, file, source) for file in chunk.files])


def read_lies(files: ArchiveFiles, chunk: Chunk, topic: str) -> list[ArchiveLies]:
    """Read a chunk, and return what is wrong with each of its files. Raises StoreError."""
    source = Source(topic, chunk.partition)
    tables: list[pa.Table] = []
    lies: list[ArchiveLies] = []
    for file in chunk.files:
        try:
            tables.append(read_file(files, file, source))
        except ArchiveLies as error:
            lies.append(error)
    try:
        _in_order(chunk, tables)
    except ArchiveLies as error:
        lies.append(error)
    return lies


def _in_order(chunk: Chunk, tables: list[pa.Table]) -> pa.Table:
    if len(tables) < 2:
        return tables[0] if tables else SCHEMA.empty_table()
    rows = pa.concat_tables(tables).sort_by("offset")
    if not _is_rising(rows):
        raise ArchiveLies(chunk.files[0].name, "another file of its chunk has the same offset")
    return rows


def read_file(files: ArchiveFiles, file: ArchivedFile, source: Source) -> pa.Table:
    """Return the rows of a file. Raises ArchiveLies, StoreError."""
    data = files.read(file.name)
    if data is None:
        raise ArchiveLies(file.name, "it is missing")
    if len(data) != file.size_bytes:
        raise ArchiveLies(file.name, f"it has {len(data)} bytes, and had {file.size_bytes}")
    if digest(data) != file.sha256:
        raise ArchiveLies(file.name, "its checksum is another one than when it was written")
    try:
        rows = pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:
        raise ArchiveLies(file.name, f"it is no Parquet file ({error})") from error
    reason = _lie(rows, file, source)
    if reason:
        raise ArchiveLies(file.name, reason)
    return rows


def _lie(rows: pa.Table, file: ArchivedFile, source: Source) -> str:
    """Return what of the rows is not as the manifest says; empty if all is."""
    if not rows.schema.equals(SCHEMA):
        return "it has other columns"
    if rows.num_rows != file.rows or not file.rows:
        return f"it has {rows.num_rows} rows, and had {file.rows}"
    if tuple(_distinct(rows, name) for name in Source._fields) != (
        [source.topic],
        [source.partition],
    ):
        return f"it has rows of another partition than {source.topic}-{source.partition}"
    offsets = rows.column("offset")
    if (offsets[0].as_py(), offsets[-1].as_py()) != (file.first_offset, file.last_offset):
        return "its offsets are others"
    return "" if _is_rising(rows) else "its offsets do not rise"


def _distinct(rows: pa.Table, column: str) -> list[object]:
    found: list[object] = rows.column(column).unique().to_pylist()
    return found


def _is_rising(rows: pa.Table) -> bool:
    offsets = rows.column("offset").combine_chunks()
    above = pc.less(offsets.slice(0, len(offsets) - 1), offsets.slice(1))
    return len(offsets) < 2 or bool(pc.all(above).as_py())
