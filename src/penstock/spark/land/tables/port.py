"""The port of a table: what a format must offer for landing exactly once.

A table stores, in the same atomic commit as the data, how far each partition of the topic has
landed: its *ends*. There is no other checkpoint. A batch is planned from the ends, its files are
written where no reader looks, and one commit makes the files and the new ends visible together.
After a kill before the commit the files are unused, and the next run plans the same offsets again;
after a kill behind it, the new ends are there. If two jobs land into one table, the later commit
fails, because each commit names the state it was planned from.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from penstock.spark.errors import TableMismatch

DAY_COLUMN = "record_date"
HOUR_COLUMN = "record_hour"
TIME_COLUMNS = {"none": (), "day": (DAY_COLUMN,), "hour": (DAY_COLUMN, HOUR_COLUMN)}


class DataFile(NamedTuple):
    """A finished Parquet file of one batch, not yet in the table."""

    path: str
    """Relative to the directory of the layout."""
    size_bytes: int
    rows: int
    day: str | None
    """UTC date of all records in it, `2026-01-31`; None for a table without time partitions."""
    hour: int | None
    offset_first: int
    """Inclusive."""
    offset_last: int
    """Inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """Directory and names for the files of one attempt."""

    directory: str
    attempt: str
    """Part of every file name, so that two attempts never write the same file."""
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """Topic, columns and partitions of a table; stored in it, and compared when it is opened."""

    path: Path
    topic: str
    topic_id: str = ""
    """Distinguishes a topic that was deleted and created again; empty if brokers have no ids."""
    schema: pa.Schema
    """Columns of the data files."""
    partition_by: str
    timestamp_column: str
    offset_column: str

    def facts(self) -> dict[str, str]:
        """Return the facts to store in the table's metadata."""
        return {
            "penstock.topic": self.topic,
            "penstock.topic-id": self.topic_id,
            "penstock.partition-by": self.partition_by,
            "penstock.schema": encode_schema(self.schema),
        }

    def check(self, stored: Mapping[str, str]) -> None:
        """Raise TableMismatch unless `stored` are the facts of this spec."""
        where = f"the table at {self.path}"
        topic = stored.get("penstock.topic")
        if topic is None:
            raise TableMismatch(f"{where} was not made by penstock land; choose another --to")
        if topic != self.topic:
            raise TableMismatch(f"{where} holds the topic {topic}; choose another --to")
        topic_id = stored.get("penstock.topic-id", "")
        if topic_id and self.topic_id and topic_id != self.topic_id:
            raise TableMismatch(
                f"{where} holds another topic {topic}, which was deleted; choose another --to"
            )
        by = stored.get("penstock.partition-by")
        if by != self.partition_by:
            raise TableMismatch(f"{where} is partitioned by {by}; use --partition-by {by}")
        if not decode_schema(stored["penstock.schema"]).equals(self.schema):
            names = ", ".join(decode_schema(stored["penstock.schema"]).names)
            raise TableMismatch(f"{where} has other columns ({names}); choose another --to")


class Table(Protocol):
    """One table that takes a topic."""

    def ends(self, partitions: Sequence[int] = ()) -> dict[int, int]:
        """Return partition -> offset after the last one landed, as of opening or the last commit.

        `partitions` are those the caller needs; a table that has to look each one up may leave
        out others.
        """

    def layout(self, attempt: str) -> FileLayout:
        """Return directory and names for the files of an attempt."""

    def commit(self, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        """Make `files` visible and move `ends`, atomically.

        Raises TableConflict, with nothing done, if the table has changed since `ends()` was read.
        """

    def facts(self) -> dict[str, str]:
        """Return the stored `TableSpec.facts`."""

    def close(self) -> None:
        """Close open files; no other method may be called afterwards."""


def encode_schema(schema: pa.Schema) -> str:
    """Return the schema as text for a table property."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def decode_schema(text: str) -> pa.Schema:
    """Return the schema that `encode_schema` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def time_directory(day: str | None, hour: int | None) -> str:
    """Return `record_date=2026-01-31/record_hour=7/`, without the parts that are None."""
    parts = [f"{DAY_COLUMN}={day}"] if day is not None else []
    parts += [f"{HOUR_COLUMN}={hour}"] if hour is not None else []
    return "".join(f"{part}/" for part in parts)
