"""The three table formats behind one port; `open_table` chooses by name.

The formats' libraries are imported where they are used: each takes a quarter of a second, and only
one is needed.
"""

from pathlib import Path

from penstock.spark.land.tables.port import DataFile, FileLayout, Table, TableSpec

__all__ = ["DataFile", "FileLayout", "Table", "TableSpec", "open_table", "stored_facts"]


def open_table(kind: str, spec: TableSpec) -> Table:
    """Open or create the table of `spec`. Raises TableMismatch if the path has something else."""
    if kind == "delta":
        from penstock.spark.land.tables.delta import DeltaLakeTable  # noqa: PLC0415

        return DeltaLakeTable(spec)
    if kind == "iceberg":
        from penstock.spark.land.tables.iceberg import IcebergTable  # noqa: PLC0415

        return IcebergTable(spec)
    from penstock.spark.land.tables.plain import PlainTable  # noqa: PLC0415

    return PlainTable(spec)


def stored_facts(kind: str, path: Path) -> dict[str, str] | None:
    """Return the facts of the table at `path`; None if there is none."""
    if kind == "delta":
        from penstock.spark.land.tables.delta import facts_at  # noqa: PLC0415
    elif kind == "iceberg":
        from penstock.spark.land.tables.iceberg import facts_at  # noqa: PLC0415
    else:
        from penstock.spark.land.tables.plain import facts_at  # noqa: PLC0415
    return facts_at(path)
