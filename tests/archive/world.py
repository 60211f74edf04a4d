"""Archives in directories, read by DuckDB as anybody would; stores that die where it is said."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from penstock.archive.copying import RunOptions, RunSummary, copy_topic
from penstock.archive.files import ArchiveFiles
from penstock.archive.ledger import Ledger
from penstock.archive.source import BrokerSource
from penstock.base.ports import Buffer
from penstock.runtime.io.object_store import open_directory
from penstock.spark.broker_access import BrokerAccess
from penstock.tier.port import Condition, ObjectStore, Plain, Stat, Version

DAY_MS = 86_400_000


class Row(NamedTuple):
    """A record as a query in place shows it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def queried(archive: Path) -> list[Row]:
    """What a glob over the directory shows, by partition and offset."""
    if not any(archive.rglob("*.parquet")):
        return []
    sql = f"""
        SELECT partition, "offset", epoch_ms(timestamp), key, value, headers
        FROM read_parquet('{archive}/**/*.parquet', hive_partitioning = true) ORDER BY 1, 2
    """
    with duckdb.connect() as connection:
        found = connection.execute(sql).fetchall()
    return [Row._make((*row[:5], tuple((h["key"], h["value"]) for h in row[5]))) for row in found]


@contextmanager
def ledger_at(archive: Path) -> Iterator[Ledger]:
    with ArchiveFiles(open_directory(archive), archive) as files:
        yield Ledger(files)


def copied(archive: Path, bootstrap: str, topic: str, **options: Any) -> RunSummary:
    """Run once, to the end."""
    with ledger_at(archive) as ledger:
        return copy_into(ledger, bootstrap, topic, **options)


def copy_into(ledger: Ledger, bootstrap: str, topic: str, **options: Any) -> RunSummary:
    with BrokerAccess(bootstrap, 120, is_committed_only=True) as access:
        return copy_topic(ledger, BrokerSource(access, topic), RunOptions(topic=topic, **options))


class Died(BaseException):
    """As a process that is killed: nobody catches it."""


class DyingStore:
    """A store whose process dies at one of its changes: before it, or when it was done."""

    def __init__(self, store: ObjectStore, dies_at: int, *, is_done: bool) -> None:
        self._store, self._dies_at, self._is_done = store, dies_at, is_done
        self.changes = 0

    async def put(
        self, name: str, chunks: Sequence[Buffer], condition: Condition = Plain.ALWAYS
    ) -> Version:
        self._maybe_die(is_done=False)
        version = await self._store.put(name, chunks, condition)
        self._maybe_die(is_done=True)
        return version

    async def delete(self, names: Sequence[str]) -> None:
        self._maybe_die(is_done=False)
        await self._store.delete(names)
        self._maybe_die(is_done=True)

    def _maybe_die(self, *, is_done: bool) -> None:
        if is_done == self._is_done:
            self.changes += 1
            if self.changes == self._dies_at:
                raise Died

    def pages(self, prefix: str) -> AsyncIterator[Sequence[Stat]]:
        return self._store.pages(prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
