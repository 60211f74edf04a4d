"""Apache Iceberg: the ends are table properties, set in the transaction that adds the files.

The catalog is a SQLite file in the table's directory, so that the directory is self-contained.
After each commit `metadata/version-hint.text` names the newest metadata, for readers without a
catalog. A commit asserts the snapshot it was planned from; pyiceberg's own retry is disabled, since
it would add files that a second job has already landed. Time partitions are Iceberg's hidden
partitions (day or hour of the timestamp), which queries by timestamp use without naming them.

Files of killed attempts stay in `data/` until orphan files are removed; no reader sees them.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table as NativeTable
from pyiceberg.transforms import DayTransform, HourTransform, Transform

from penstock.spark.errors import TableConflict, TableMismatch
from penstock.spark.land.tables.port import DataFile, FileLayout, TableSpec

CATALOG_FILE = "catalog.sqlite"
TABLE_NAME = ("penstock", "table")
_END = "penstock.end."
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
"""It would warn for each file about columns that have no statistics, which is intended."""
_PROPERTIES = {
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergTable:
    """One Iceberg table with its catalog."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._root = spec.path.absolute()
        has_catalog = (self._root / CATALOG_FILE).exists()
        if not has_catalog and self._root.exists():
            others = [p.name for p in self._root.iterdir() if p.name != "_penstock"]
            if others:
                raise TableMismatch(f"{spec.path} is not empty and no Iceberg table of ours")
        (self._root / "data").mkdir(parents=True, exist_ok=True)
        self._catalog = _catalog(self._root)
        try:
            self._table = self._open()
            spec.check(self.facts())
        except BaseException:
            self.close()
            raise

    def _open(self) -> NativeTable:
        try:
            return self._catalog.load_table(TABLE_NAME)
        except NoSuchTableError:
            return self._create()

    def close(self) -> None:
        """Close the catalog, which keeps its file open."""
        self._catalog.close()

    def _create(self) -> NativeTable:
        spec = self._spec
        self._catalog.create_namespace_if_not_exists(TABLE_NAME[0])
        with self._catalog.create_table_transaction(
            TABLE_NAME,
            schema=spec.schema,
            location=self._root.as_uri(),
            properties=_PROPERTIES | spec.facts(),
        ) as transaction:
            if spec.partition_by != "none":
                transform: Transform[Any, Any] = (
                    HourTransform() if spec.partition_by == "hour" else DayTransform()
                )
                with transaction.update_spec() as update:
                    update.add_field(
                        spec.timestamp_column, transform, f"record_{spec.partition_by}"
                    )
        return self._catalog.load_table(TABLE_NAME)

    def facts(self) -> dict[str, str]:
        return dict(self._table.properties)

    def ends(self, partitions: Sequence[int] = ()) -> dict[int, int]:
        return {
            int(name.removeprefix(_END)): int(value)
            for name, value in self._table.properties.items()
            if name.startswith(_END)
        }

    def layout(self, attempt: str) -> FileLayout:
        return FileLayout(directory=str(self._root / "data"), attempt=attempt, suffix=".parquet")

    def commit(self, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        try:
            with self._table.transaction() as transaction:
                properties = {f"{_END}{partition}": str(end) for partition, end in ends.items()}
                transaction.set_properties(properties)
                if files:
                    base = (self._root / "data").as_uri()
                    transaction.add_files(
                        [f"{base}/{file.path}" for file in files], check_duplicate_files=False
                    )
        except CommitFailedException as error:
            raise TableConflict(f"another writer changed {self._spec.path}: {error}") from error
        self._write_hint()

    def _write_hint(self) -> None:
        """Replace the hint atomically; it may be one commit behind, since it is only a hint."""
        name = Path(self._table.metadata_location).name.removesuffix(".metadata.json")
        hint = self._root / "metadata" / "version-hint.text"
        new = hint.with_suffix(".new")
        new.write_text(name)
        new.replace(hint)


def _catalog(root: Path) -> SqlCatalog:
    uri = f"sqlite:///{root / CATALOG_FILE}"
    return SqlCatalog("penstock", uri=uri, warehouse=root.as_uri())


def facts_at(path: Path) -> dict[str, str] | None:
    """Return the properties of the table at `path`; None if there is none."""
    root = path.absolute()
    if not (root / CATALOG_FILE).exists():
        return None
    with _catalog(root) as catalog:
        try:
            return dict(catalog.load_table(TABLE_NAME).properties)
        except NoSuchTableError:
            return None
