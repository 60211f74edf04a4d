"""The files of an archive: the tier's port of a store, for callers that wait.

    record_date=2026-01-31/<partition>-<start>-<end>-<number>-<run>.parquet    rows of one day
    _penstock/...                                                              ledger.py

A name is used once, and never for other bytes. The names of the Parquet files carry the chunk that
they belong to, so that a file which no entry names can be told: left by a run that died, or by a
prune. Readers of tables pass over names that begin with an underscore.

Source: docs/adr/0164; the port, tier/port.py.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from penstock.tier.errors import ObjectNotFound, PreconditionFailed
from penstock.tier.port import DELETE_NAMES_MAX, READ_BYTES_MAX, ObjectStore, Plain, Stat
from penstock.tier.probe import probe

OWN = "_penstock"
"""What is not data is below it."""
SUFFIX = ".parquet"
_NAME = re.compile(
    r"record_date=\d{4}-\d\d-\d\d/(\d{5,10})-(\d{20})-(\d{20})-(\d+)-([0-9a-f]{12})\.parquet"
)
T = TypeVar("T")


class DataName(NamedTuple):
    """What the name of a Parquet file tells: the chunk that it is of. The end is exclusive."""

    partition: int
    start: int
    end: int


def data_name(day: str, chunk: DataName, number: int, run: str) -> str:
    """Return the name of file `number` of a chunk, with rows of one day."""
    where = f"{chunk.partition:05d}-{chunk.start:020d}-{chunk.end:020d}"
    return f"record_date={day}/{where}-{number}-{run}{SUFFIX}"


def parse_data_name(name: str) -> DataName | None:
    """Return what a name tells; None: no archive names a file so."""
    found = _NAME.fullmatch(name)
    return None if found is None else DataName(int(found[1]), int(found[2]), int(found[3]))


class ArchiveFiles:
    """Files by name. Use as a context manager, or close it; for one thread."""

    def __init__(self, store: ObjectStore, directory: Path | None = None) -> None:
        """`directory` is where the store is, if it is one of this machine."""
        self._store, self._directory = store, directory
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the loop of the store's calls."""
        self._runner.close()

    def put_new(self, name: str, data: bytes) -> bool:
        """Put a file durably; False: another one has the name. Raises StoreError.

        A put that was retried on its way may find itself in the way: then the bytes are the same.
        """
        try:
            self._run(self._store.put(name, [data], Plain.ABSENT))
        except PreconditionFailed:
            return self.read(name) == data
        return True

    def read(self, name: str) -> bytes | None:
        """Return all bytes of a file; None if it is not there. Raises StoreError, LyingObject."""
        try:
            return self._run(self._whole(name))
        except ObjectNotFound:
            return None

    def names(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of the files below a prefix. Raises StoreError."""
        pages = aiter(self._store.pages(prefix))

        async def following() -> list[Stat] | None:
            page = await anext(pages, None)
            return None if page is None else list(page)

        while (found := self._run(following())) is not None:
            yield from (stat.name for stat in found)

    def delete(self, names: list[str]) -> None:
        """Delete files; those that are gone are no error. Raises StoreError."""
        for at in range(0, len(names), DELETE_NAMES_MAX):
            self._run(self._store.delete(names[at : at + DELETE_NAMES_MAX]))

    def delete_half_written(self) -> None:
        """Delete what puts have left in a directory that died under way.

        Lists do not show it, but tables that are read by their directory would have it.
        """
        if self._directory is not None:
            for left in self._directory.rglob(f"*{SUFFIX}#*"):
                left.unlink(missing_ok=True)

    def refuses_second(self, name: str) -> bool:
        """Whether the store was found to refuse a put of a name that is taken, by trying it."""
        return self._run(probe(self._store, name)).creates

    async def _whole(self, name: str) -> bytes:
        size = (await self._store.look(name)).size_bytes
        step = READ_BYTES_MAX
        ranges = [(at, min(step, size - at)) for at in range(0, size, step)]
        return b"".join(await self._store.read_many(name, ranges))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)
