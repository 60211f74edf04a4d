"""The tier's port of a store over HDFS, through `hdfs-native`, which needs no Java.

    put      makes NAME.putting/, writes a file of a random name in it, syncs and closes that,
             renames it to NAME, and removes the directory
    delete   takes NAME.putting/ with what is in it, then NAME, then the directory it was in, if
             that is empty

So nothing half-written has a name, and **who deletes a name ends the puts of it that are under
way**: they write into a directory that was deleted. A directory that this process has put into and
that is gone is not made again by the put that finds out: its owner was deposed, or deletes.

A rename that replaces nothing is the condition ABSENT; versions can not be compared. All bytes of a
put are on the disks of the DataNodes when it is answered: each block is synced before it is closed.

Each request of the library has a time limit here, since it has none itself; behind one that has
passed the next request begins with the next NameNode, on connections of its own. The library's own
repetitions are off but for one try at each NameNode: their pauses fail where the loop is Python's.

Source: docs/adr/0174; the port, tier/port.py. `hdfs-native`: Apache-2.0, 17 MB, Rust. Its threads,
one for each core and order of NameNodes, are the process's and do not keep it from ending.

Deliberately not here: Kerberos, encryption zones, erasure-coded directories, Hadoop's own files of
configuration.
"""

import asyncio
import ctypes
import os
import secrets
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.base.errors import ConfigError
from penstock.base.ports import Buffer
from penstock.runtime.io.hdfs_errors import PANIC_MODULE, DirectoryNotEmpty, as_port_has_it
from penstock.tier.errors import (
    LyingObject,
    ObjectNotFound,
    StoreCanNot,
    StoreError,
    StoreUnavailable,
)
from penstock.tier.hdfs_place import HdfsPlace
from penstock.tier.port import (
    DELETE_NAMES_MAX,
    PAGE_NAMES,
    PART_BYTES,
    PARTS_MAX,
    PUT_BYTES_MAX,
    Condition,
    Plain,
    Stat,
    Version,
)

if TYPE_CHECKING:
    from hdfs_native import AsyncClient, AsyncFileWriter, FileStatus

USER_VARIABLE = "HADOOP_USER_NAME"
"""Of the environment: whom the library says that it is, each time that it connects."""
PUTTING = ".putting"
"""Ends the name of a directory with what is being put; no part of an object's name ends so."""
PIECE_BYTES = 256 << 10
"""Of one write: what is held up by the checksums of so much is the loop of the process."""
BLOCK_BYTES = 128 << 20
"""Of a large put; a smaller one has one block."""
BLOCK_UNIT = 64 << 20
"""Sizes of blocks are multiples of it; NameNodes refuse small ones."""
DELETES_AT_ONCE = 16
DIRECTORIES_MAX = 1024
"""That are known to be there."""
DEPTH_MAX = 32
"""Of directories in a list."""
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
"""For the user, and for the group of the directory above."""
NAME = "penstock"
"""Of the NameNodes, towards the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsSettings:
    """A directory of an HDFS, who asks, and for how long."""

    place: HdfsPlace
    user: str = ""
    """Empty: HADOOP_USER_NAME of the environment, or else the user of the process."""
    call_ms: int = 30_000
    """Of one request: a name, a piece of a file, the end of a file, a range."""


def open_hdfs(settings: HdfsSettings) -> "HdfsStore":
    """Return a directory as a store. Nothing is asked of it yet. Raises ConfigError.

    `user` holds for the process: it can have one only.
    """
    if find_spec("hdfs_native") is None:
        raise ConfigError("HDFS needs the package hdfs-native: install penstock[hdfs]")
    if settings.user:
        os.environ[USER_VARIABLE] = settings.user
    return HdfsStore(settings)


class HdfsStore:
    """A store in a directory of an HDFS."""

    def __init__(self, settings: HdfsSettings) -> None:
        self._directory = settings.place.directory
        self._name_nodes = settings.place.name_nodes
        self._call_ms = settings.call_ms
        self._known: dict[str, None] = {}
        """Directories that this process has put into, the oldest first."""

    async def put(
        self, name: str, chunks: Sequence[Buffer], condition: Condition = Plain.ALWAYS
    ) -> Version:
        """As the port says."""
        size = sum(map(len, chunks))
        assert size <= PUT_BYTES_MAX, "more than one request takes"
        if isinstance(condition, Version):
            raise StoreCanNot(name, "HDFS does not compare versions")
        block_bytes = max(-(-size // BLOCK_UNIT), 1) * BLOCK_UNIT
        return await self._put(name, _each(chunks), block_bytes, condition)

    async def put_large(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        """As the port says."""
        await self._put(name, parts, BLOCK_BYTES, Plain.ALWAYS)

    async def _put(
        self, name: str, parts: AsyncIterator[Buffer], block_bytes: int, condition: Plain
    ) -> Version:
        directory = self._path(name) + PUTTING
        await self._make(name, directory)
        path = f"{directory}/{secrets.token_hex(8)}"
        try:
            status = await self._write(name, path, parts, block_bytes)
            async with self._writing(name) as client:
                overwrite = condition is Plain.ALWAYS
                await client.rename(path, self._path(name), overwrite=overwrite)
        except Exception:
            with suppress(StoreError):
                await self._take(name, path, recursive=False)
                await self._take_if_empty(name, directory)
            raise
        with suppress(StoreError):  # the object is there; the rest goes when it is deleted
            await self._take_if_empty(name, directory)
        return _version(status)

    async def _make(self, name: str, directory: str) -> None:
        """Make the directory of a put, in one that is there if this process has known it."""
        parent = _parent(directory)
        if parent in self._known:
            try:
                await self._mkdirs(name, directory, with_parents=False)
            except ObjectNotFound:
                if parent in self._known:  # nobody here has deleted it
                    del self._known[parent]
                    raise StoreUnavailable(name, f"{parent} was deleted by somebody else") from None
            else:
                return
        await self._mkdirs(name, directory, with_parents=True)
        while len(self._known) >= DIRECTORIES_MAX:
            del self._known[next(iter(self._known))]
        self._known[parent] = None

    async def _mkdirs(self, name: str, directory: str, *, with_parents: bool) -> None:
        async with self._asking(name) as client:
            await client.mkdirs(directory, DIRECTORY_MODE, create_parent=with_parents)

    async def _write(
        self, name: str, path: str, parts: AsyncIterator[Buffer], block_bytes: int
    ) -> "FileStatus":
        """Write a file that nobody else has, so that all of it is on the disks."""
        async with self._writing(name) as client:
            writer = await client.create(path, _options(block_bytes))
        size = 0
        async for part in parts:
            view = memoryview(part)
            while view:
                piece = bytes(view[: min(PIECE_BYTES, block_bytes - size % block_bytes)])
                view = view[len(piece) :]
                size += len(piece)
                assert size <= PARTS_MAX * PART_BYTES, "more than a large put takes"
                await self._write_piece(name, writer, piece, ends=size % block_bytes == 0)
        async with self._writing(name):
            await writer.hsync()
        async with self._writing(name):
            await writer.close()
        async with self._writing(name) as client:
            status = await client.get_file_info(path)
        if status.length != size:
            raise StoreUnavailable(name, f"{status.length} of {size} bytes were written")
        return status

    async def _write_piece(
        self, name: str, writer: "AsyncFileWriter", piece: bytes, *, ends: bool
    ) -> None:
        async with self._writing(name):
            await writer.write(piece)
            if ends:  # the block is closed by what is written next, and can not be synced then
                await writer.hsync()
        await asyncio.sleep(0)  # a write that finds room does not give the loop away

    async def read(self, name: str, position: int, length: int) -> memoryview:
        """As the port says."""
        return (await self.read_many(name, [(position, length)]))[0]

    async def read_many(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """As the port says."""
        if not any(length for _, length in ranges):
            return [memoryview(b"") for _ in ranges]
        async with self._asking(name) as client:
            reader = await client.read(self._path(name))
        size, found = len(reader), list[memoryview]()
        for position, length in ranges:
            if length and position + length > size:
                there = max(size - position, 0)
                raise LyingObject(name, position, f"{there} of {length} bytes are there")
            data = b""
            if length:
                async with self._asking(name):
                    data = await reader.read_range(position, length)
            found.append(memoryview(data))
        return found

    async def look(self, name: str) -> Stat:
        """As the port says."""
        status = await self._status(name, self._path(name))
        if status.isdir:
            raise ObjectNotFound(name, "a directory has the name")
        return self._stat(status)

    async def _status(self, name: str, path: str) -> "FileStatus":
        async with self._asking(name) as client:
            return await client.get_file_info(path)

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Stat]]:
        """As the port says; what is being put is not among it."""
        page: list[Stat] = []
        async for status in self._files(prefix):
            page.append(self._stat(status))
            if len(page) == PAGE_NAMES:
                yield page
                page = []
        if page:
            yield page

    async def _files(self, prefix: str) -> AsyncIterator["FileStatus"]:
        """Yield the files below a directory, and below those in it."""
        top = self._path(prefix) if prefix else self._directory
        client = self._opened()
        begun = [client.list_status(top)]
        while begun:
            status = await self._next(prefix, begun[-1])
            if status is None:
                begun.pop()
            elif not status.isdir:
                if status.path != top:
                    yield status
            elif not status.path.endswith(PUTTING):
                if len(begun) == DEPTH_MAX:
                    raise StoreCanNot(prefix, f"directories are nested deeper than {DEPTH_MAX}")
                begun.append(client.list_status(status.path))

    async def _next(self, prefix: str, begun: "AsyncIterator[FileStatus]") -> "FileStatus | None":
        """Return what comes next in a directory; one that has gone meanwhile is at its end."""
        with suppress(ObjectNotFound):
            async with self._asking(prefix):
                return await anext(begun, None)
        return None

    async def delete(self, names: Sequence[str]) -> None:
        """As the port says; a put of one of the names that is under way fails."""
        assert len(names) <= DELETE_NAMES_MAX, "more than one request takes"
        for at in range(0, len(names), DELETES_AT_ONCE):
            await _all([self._remove(name) for name in names[at : at + DELETES_AT_ONCE]])
        for parent in {_parent(self._path(name)) for name in names} - {self._directory}:
            self._known.pop(parent, None)
            await self._take_if_empty(names[0], parent)

    async def _remove(self, name: str) -> None:
        """Delete what is being put first: behind this nothing of it can get the name."""
        await self._take(name, self._path(name) + PUTTING, recursive=True)
        await self._take(name, self._path(name), recursive=False)

    async def _take(self, name: str, path: str, *, recursive: bool) -> None:
        with suppress(ObjectNotFound):
            async with self._asking(name) as client:
                await client.delete(path, recursive=recursive)

    async def _take_if_empty(self, name: str, directory: str) -> None:
        with suppress(DirectoryNotEmpty):
            await self._take(name, directory, recursive=False)

    @asynccontextmanager
    async def _writing(self, name: str) -> "AsyncIterator[AsyncClient]":
        """As `_asking`, of a file that is there as long as nobody deletes it."""
        try:
            async with self._asking(name) as client:
                yield client
        except ObjectNotFound as error:
            raise StoreUnavailable(name, "it was deleted while it was put") from error

    @asynccontextmanager
    async def _asking(self, name: str) -> "AsyncIterator[AsyncClient]":
        """Give the client for one request; its errors, and its silence, are those of the port."""
        client, limit = self._opened(), asyncio.timeout(self._call_ms / 1000)
        try:
            async with limit:
                yield client
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__module__ != PANIC_MODULE:
                raise
            if limit.expired():
                self._give_up(client)
                reason = f"no answer within {self._call_ms} ms"
                raise StoreUnavailable(name, reason) from error
            raise as_port_has_it(name, error) from error

    def _opened(self) -> "AsyncClient":
        return _client(self._name_nodes, self._call_ms)

    def _give_up(self, client: "AsyncClient") -> None:
        """Begin with the next NameNode: the connection to one that is gone may never end."""
        if self._opened() is client:
            first, *others = self._name_nodes
            self._name_nodes = (*others, first)

    def _path(self, name: str) -> str:
        assert not any(part.endswith(PUTTING) for part in name.split("/")), name
        return f"{self._directory}/{name}"

    def _stat(self, status: "FileStatus") -> Stat:
        name = status.path.removeprefix(f"{self._directory}/")
        return Stat(name, status.length, _version(status), status.modification_time)


_CLIENTS: "dict[tuple[str, int, tuple[str, ...]], AsyncClient]" = {}
"""By user, time limit and NameNodes in their order: one for all stores that have these."""


def _client(name_nodes: tuple[str, ...], call_ms: int) -> "AsyncClient":
    """Return the client of this process for these NameNodes.

    None is ever dropped, not even when the interpreter ends: a client waits for its threads then,
    with the interpreter's lock, and they may wait for the lock to tell of an answer.
    """
    key = os.environ.get(USER_VARIABLE, ""), call_ms, name_nodes
    if key not in _CLIENTS:
        client = _CLIENTS[key] = _new_client(name_nodes, call_ms)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client.inner))
    return _CLIENTS[key]


def _new_client(name_nodes: tuple[str, ...], call_ms: int) -> "AsyncClient":
    """Return a client that reads no files of configuration, and pauses nowhere."""
    from hdfs_native import AsyncClient  # noqa: PLC0415  only who uses a store has the package

    ids = [f"n{at}" for at in range(len(name_nodes))]
    config = {
        f"dfs.ha.namenodes.{NAME}": ",".join(ids),
        "dfs.client.failover.max.attempts": str(len(name_nodes) - 1),
        "dfs.client.socket-timeout": str(max(call_ms // 3, 1)),
        "hadoop.security.authentication": "simple",
    }
    for one, address in zip(ids, name_nodes, strict=True):
        config[f"dfs.namenode.rpc-address.{NAME}.{one}"] = address
    return AsyncClient(f"hdfs://{NAME}", config, os.devnull)


def _options(block_bytes: int) -> Any:
    from hdfs_native import WriteOptions  # noqa: PLC0415  as above

    return WriteOptions(block_size=block_bytes, permission=FILE_MODE, create_parent=False)


def _version(status: "FileStatus") -> Version:
    """Return what tells two objects of one name apart, if not put in one ms with one size."""
    return Version(f"{status.modification_time}-{status.length}")


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


async def _each(chunks: Sequence[Buffer]) -> AsyncIterator[Buffer]:
    for chunk in chunks:
        yield chunk


async def _all(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Do all; raise an error, if there is one, when none is under way any more."""
    for done in await asyncio.gather(*works, return_exceptions=True):
        if done is not None:
            raise done
