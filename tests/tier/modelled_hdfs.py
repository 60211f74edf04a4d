"""The names of an HDFS in memory, behind the methods of hdfs-native's client that the adapter uses.

tests/tier/test_hdfs.py holds it against a real one: the same tests, with the same results.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from penstock.tier.hdfs_place import HdfsPlace

ADDRESS = "modelled:1"


@dataclass(slots=True)
class File:
    """A file, or a directory."""

    path: str
    isdir: bool
    modification_time: int
    data: bytearray = field(default_factory=bytearray)
    synced_bytes: int = 0
    """That are on disks."""
    permission: int = 0

    @property
    def length(self) -> int:
        return len(self.data)


class ModelledHdfs:
    """A NameNode's names; one for all clients of it."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.inner = object()
        self._times = itertools.count(1)

    def place(self, directory: str) -> HdfsPlace:
        return HdfsPlace((ADDRESS,), directory)

    async def mkdirs(self, path: str, permission: int, create_parent: bool) -> None:
        await asyncio.sleep(0)
        self._check_parent(path, create_parent)
        for one in [*_above(path), path]:
            if one not in self.files:
                self.files[one] = File(one, True, next(self._times), permission=permission)
            elif not self.files[one].isdir:
                raise FileExistsError(one)

    async def create(self, path: str, options: Any) -> "Writer":
        await asyncio.sleep(0)
        if path in self.files:
            raise FileExistsError(path)
        self._check_parent(path, options.create_parent)
        made = self.files[path] = File(path, False, next(self._times))
        return Writer(self, made, options.block_size)

    def _check_parent(self, path: str, create_parent: bool) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.files and not create_parent:
            raise FileNotFoundError(parent)

    async def get_file_info(self, path: str) -> File:
        await asyncio.sleep(0)
        return self._file(path)

    def _file(self, path: str) -> File:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def rename(self, source: str, target: str, overwrite: bool) -> None:
        await asyncio.sleep(0)
        moved = self._file(source)
        if target in self.files and not overwrite:
            raise FileExistsError(target)
        self._check_parent(target, False)
        del self.files[source]
        moved.path = target
        self.files[target] = moved

    async def delete(self, path: str, recursive: bool) -> bool:
        await asyncio.sleep(0)
        below = [one for one in self.files if one.startswith(f"{path}/")]
        if below and not recursive:
            kind = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
            raise RuntimeError(f'RPCError("{kind}", "`{path} is non empty")')
        for one in below:
            del self.files[one]
        return self.files.pop(path, None) is not None

    async def read(self, path: str) -> "Reader":
        await asyncio.sleep(0)
        if self._file(path).isdir:
            raise FileNotFoundError(path)
        return Reader(bytes(self.files[path].data))

    async def list_status(self, path: str) -> AsyncIterator[File]:
        await asyncio.sleep(0)
        if not self._file(path).isdir:
            yield self.files[path]
            return
        for one in sorted(self.files):
            if one in self.files and one.rpartition("/")[0] == path:
                yield self.files[one]


class Writer:
    """Of one file, until somebody deletes it."""

    def __init__(self, names: ModelledHdfs, file: File, block_bytes: int) -> None:
        self._names = names
        self._file = file
        self._block_bytes = block_bytes
        self._is_closed = False

    async def write(self, data: bytes) -> int:
        assert type(data) is bytes, "copied one by one"
        begins_block = self._file.length % self._block_bytes == 0
        if begins_block:
            assert self._file.synced_bytes == self._file.length, "the block before was not synced"
        assert self._file.length % self._block_bytes + len(data) <= self._block_bytes
        self._file.data += data
        return len(data)

    async def hsync(self) -> None:
        await asyncio.sleep(0)
        self._check()
        self._file.synced_bytes = self._file.length

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._check()
        self._is_closed = True
        self._file.modification_time = next(self._names._times)

    def _check(self) -> None:
        assert not self._is_closed, "a file that is closed is not written any more"
        if self._names.files.get(self._file.path) is not self._file:
            raise FileNotFoundError(self._file.path)


class Reader:
    """Of a file as it was when it was opened."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    async def read_range(self, position: int, length: int) -> bytes:
        await asyncio.sleep(0)
        assert position + length <= len(self._data), "the library panics"
        return self._data[position : position + length]


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:at]) for at in range(2, len(parts))]
