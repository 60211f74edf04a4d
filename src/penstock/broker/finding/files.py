"""The files of an index, in the directory of its log; everything off the loop.

    SET/keys/FIRST-END.keys    a table, which does not change any more
    SET/keys/floor             up to which position tables were let go, and are not made anew

Source: ours, docs/formats/key-index.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk, Lane, Offload
from penstock.finding.errors import DamagedTable
from penstock.finding.piece import Place
from penstock.finding.table import SUFFIX, Table, find_in, read_partitions, read_table

DIRECTORY: Final = "keys"
_FLOOR: Final = "floor"
_NOTE = Struct(">QI")


class Opened(NamedTuple):
    """What is there at a start."""

    tables: list[Table]
    floor: int
    damaged: int
    """Files that are not what was written; they are removed."""


class Searched(NamedTuple):
    """What some tables have of a name."""

    places: list[Place]
    damaged: list[Table]


class IndexFiles:
    """See the module. `done(result, error)` is called on the loop; one of them is None."""

    def __init__(self, disk: Disk, log_directory: str, offload: Offload) -> None:
        self.offload = offload
        self._disk = disk
        self._directory = f"{log_directory}/{DIRECTORY}"

    def open(self, done: Callable[[Opened | None, BaseException | None], None]) -> None:
        """Read the headers of all tables, and remove what is none."""
        self.offload.submit(self._open, done, Lane.READ)

    def write(
        self,
        make: Callable[[], tuple[Table, list[bytes]]],
        done: Callable[[Table | None, BaseException | None], None],
    ) -> None:
        """Write a table durably."""

        def work() -> Table:
            table, data = make()
            self._disk.make_directory(self._directory)
            self._disk.replace(self._path(table.name), b"".join(data))
            return table

        self.offload.submit(work, done, Lane.READ)

    def find(
        self,
        tables: list[Table],
        name_hash: bytes,
        most: int,
        done: Callable[[Searched | None, BaseException | None], None],
    ) -> None:
        """Find up to `most` places of a hash in some tables, in their order."""
        self.offload.submit(partial(self._find, tables, name_hash, most), done, Lane.READ)

    def partitions(
        self,
        table: Table,
        done: Callable[[list[tuple[TopicPartition, int]] | None, BaseException | None], None],
    ) -> None:
        """Read the partitions of a table, each with its highest offset."""

        def work() -> list[tuple[TopicPartition, int]]:
            file = self._disk.open(self._path(table.name))
            try:
                return list(read_partitions(file, table))
            finally:
                file.close()

        self.offload.submit(work, done, Lane.READ)

    def drop(
        self, name: str, floor: int, done: Callable[[None, BaseException | None], None]
    ) -> None:
        """Note the floor durably, and remove a table that lies below it."""

        def work() -> None:
            note = floor.to_bytes(8, "big")
            self._disk.replace(self._path(_FLOOR), _NOTE.pack(floor, crc32c(note)))
            self._disk.remove(self._path(name))

        self.offload.submit(work, done, Lane.READ)

    def remove(self, names: list[str], done: Callable[[None, BaseException | None], None]) -> None:
        """Remove tables that do not count."""

        def work() -> None:
            for name in names:
                self._disk.remove(self._path(name))

        self.offload.submit(work, done, Lane.READ)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _open(self) -> Opened:
        self._disk.make_directory(self._directory)
        tables: list[Table] = []
        damaged = 0
        for name in self._disk.list(self._directory):
            if name == _FLOOR:
                continue
            if not name.endswith(SUFFIX):
                self._disk.remove(self._path(name))
                continue
            try:
                tables.append(self._read(name))
            except DamagedTable:
                self._disk.remove(self._path(name))
                damaged += 1
        return Opened(tables, self._read_floor(), damaged)

    def _read(self, name: str) -> Table:
        file = self._disk.open(self._path(name))
        try:
            return read_table(file, name)
        finally:
            file.close()

    def _read_floor(self) -> int:
        """Return the floor; 0 if there is none: then what was let go is made anew, and let go."""
        try:
            file = self._disk.open(self._path(_FLOOR))
        except FileNotFoundError:
            return 0
        try:
            data = bytes(file.read(0, _NOTE.size))
        finally:
            file.close()
        if len(data) != _NOTE.size:
            return 0
        floor, crc = _NOTE.unpack(data)
        return int(floor) if crc32c(data[:8]) == crc else 0

    def _find(self, tables: list[Table], name_hash: bytes, most: int) -> Searched:
        places: list[Place] = []
        damaged: list[Table] = []
        for table in tables:
            try:
                file = self._disk.open(self._path(table.name))
            except FileNotFoundError:
                continue  # let go meanwhile
            try:
                places += find_in(file, table, name_hash, most - len(places))
            except DamagedTable:
                damaged.append(table)
            finally:
                file.close()
        return Searched(places, damaged)
