"""Reads landed tables as others would: by the formats' own libraries, knowing nothing of us."""

import contextlib
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from harness.waiting import UNTIL_SECONDS, wait_until


def read_table(kind: str, path: Path) -> pa.Table:
    """All rows of a table; an absent one is an empty table without columns."""
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(path)).to_pyarrow_table()
    if kind == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        with SqlCatalog("penstock", uri=f"sqlite:///{path / 'catalog.sqlite'}") as catalog:
            return catalog.load_table("penstock.table").scan().to_arrow()
    files = [str(file) for file in path.rglob("*.parquet")]
    if not files:
        return pa.table({"_offset": pa.array([], pa.int64())})
    partitioning = ds.partitioning(flavor="hive")
    found = ds.dataset(
        files, format="parquet", partitioning=partitioning, partition_base_dir=str(path)
    )
    return found.to_table()


def held_open(directory: Path) -> list[str]:
    """Return the files below a directory that this process keeps open.

    Delta's library reads on threads of its own. One that nobody waits for any longer closes its
    file when its read ends, so a file counts when it is still open at the deadline.
    """
    wait_until(lambda: not _open_now(directory), UNTIL_SECONDS)
    return _open_now(directory)


def _open_now(directory: Path) -> list[str]:
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(descriptor.readlink()))
    return [link for link in links if link.startswith(str(directory))]
