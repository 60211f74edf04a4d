"""Delta Lake: the ends are application transactions in the transaction log.

Delta stores for every application id the highest version committed. The id here is
`penstock/<topic>/<partition>`, and the version is the end offset itself. If two jobs commit the
same id from the same table version, the protocol makes one fail: that is the compare-and-set. Files
of killed attempts stay in the table directory until a `vacuum`; no Delta reader sees them.

Source: Delta protocol, Transaction Identifiers.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction

from penstock.spark.errors import TableConflict, TableMismatch
from penstock.spark.land.tables.port import (
    DAY_COLUMN,
    HOUR_COLUMN,
    TIME_COLUMNS,
    DataFile,
    FileLayout,
    TableSpec,
)

_TIME_TYPES = {DAY_COLUMN: pa.date32(), HOUR_COLUMN: pa.int32()}


class DeltaLakeTable:
    """One Delta table."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._partition_columns = list(TIME_COLUMNS[spec.partition_by])
        try:
            self._table = DeltaTable(str(spec.path))
        except TableNotFoundError:
            self._table = self._create()
        spec.check(self.facts())
        self._ends: dict[int, int] = {}

    def _create(self) -> DeltaTable:
        spec = self._spec
        if spec.path.exists() and any(p.name != "_penstock" for p in spec.path.iterdir()):
            raise TableMismatch(f"{spec.path} is not empty and no Delta table; choose another --to")
        fields = [pa.field(name, _TIME_TYPES[name]) for name in self._partition_columns]
        return DeltaTable.create(
            str(spec.path),
            schema=Schema.from_arrow(pa.schema([*spec.schema, *fields])),
            partition_by=self._partition_columns or None,
            configuration=spec.facts(),
            raise_if_key_not_exists=False,
        )

    def facts(self) -> dict[str, str]:
        return dict(self._table.metadata().configuration)

    def ends(self, partitions: Sequence[int] = ()) -> dict[int, int]:
        for partition in partitions:
            version = self._table.transaction_version(self._application(partition))
            if version is not None:
                self._ends[partition] = version
        return dict(self._ends)

    def _application(self, partition: int) -> str:
        return f"penstock/{self._spec.topic}/{partition}"

    def close(self) -> None:
        """Do nothing: no file is held open between two calls."""

    def layout(self, attempt: str) -> FileLayout:
        return FileLayout(directory=str(self._spec.path), attempt=attempt, suffix=".parquet")

    def commit(self, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        properties = CommitProperties(
            custom_metadata={"penstock.ends": json.dumps({str(p): e for p, e in ends.items()})},
            app_transactions=[Transaction(self._application(p), e) for p, e in ends.items()],
        )
        try:
            self._table.create_write_transaction(
                [self._add(file) for file in files],
                mode="append",
                schema=self._table.schema(),
                partition_by=self._partition_columns or None,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise TableConflict(f"another writer changed {self._spec.path}: {error}") from error
        self._table.update_incremental()
        self._ends.update(ends)

    def _add(self, file: DataFile) -> AddAction:
        column = self._spec.offset_column
        stats = {
            "numRecords": file.rows,
            "minValues": {column: file.offset_first},
            "maxValues": {column: file.offset_last},
            "nullCount": {column: 0},
        }
        values = {DAY_COLUMN: file.day, HOUR_COLUMN: None if file.hour is None else str(file.hour)}
        return AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values={name: values[name] for name in self._partition_columns},
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps(stats),
        )


def facts_at(path: Path) -> dict[str, str] | None:
    """Return the properties of the Delta table at `path`; None if there is none."""
    try:
        return dict(DeltaTable(str(path)).metadata().configuration)
    except TableNotFoundError:
        return None
