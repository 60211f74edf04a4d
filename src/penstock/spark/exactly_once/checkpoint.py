"""Where a stream's decisions are kept: the directory `penstock` in Spark's checkpoint.

A file appears whole and durable under its name or not at all, and none is written twice. On the
local file system this is certain (synced, then linked). Elsewhere it is what the file system gives:
HDFS renames atomically and never over a file; object stores make a file visible when it is closed.

The checkpoint is looked for where Spark has it: Spark's own file `metadata` must be there, so that
a path that means another file system here than in Spark is found out at once. The id in it is that
of the query, made once, for its whole life.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, Protocol

from pyarrow import fs

from penstock.spark.errors import CheckpointUnusable, DecisionTaken
from penstock.spark.new_files import sync_directory, write_new

DIRECTORY = "penstock"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_ALIASES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of schemes, and what pyarrow calls them."""


class Place(Protocol):
    """Small files of one directory."""

    def names(self) -> list[str]:
        """Return the names of the files; none if the directory is not there yet."""

    def read(self, name: str) -> bytes:
        """Return a file's content. Raises OSError."""

    def write_new(self, name: str, content: bytes) -> None:
        """Write a file durably. Raises DecisionTaken if it exists, OSError."""

    def remove(self, name: str) -> None:
        """Remove a file, which may be gone already."""


class LocalPlace:
    """A directory of this machine, or one that it has mounted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> list[str]:
        return os.listdir(self._directory) if self._directory.is_dir() else []  # noqa: PTH208

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def write_new(self, name: str, content: bytes) -> None:
        if not self._directory.is_dir():
            self._directory.mkdir(exist_ok=True)
            sync_directory(self._directory.parent)
        try:
            write_new(self._directory / name, content)
        except FileExistsError as error:
            raise DecisionTaken(str(self._directory / name)) from error

    def remove(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)


class RemotePlace:
    """A directory of a file system that pyarrow knows."""

    def __init__(self, files: fs.FileSystem, directory: str) -> None:
        self._files, self._directory = files, directory.rstrip("/")

    def names(self) -> list[str]:
        found = self._files.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        return [one.base_name for one in found if one.type is fs.FileType.File]

    def read(self, name: str) -> bytes:
        with self._files.open_input_file(self._path(name)) as file:
            return bytes(file.read())

    def write_new(self, name: str, content: bytes) -> None:
        self._files.create_dir(self._directory, recursive=True)
        if self._files.get_file_info(self._path(name)).type is not fs.FileType.NotFound:
            raise DecisionTaken(self._path(name))
        draft = self._path(f".{name}.{os.getpid()}")
        with self._files.open_output_stream(draft) as file:
            file.write(content)
        self._files.move(draft, self._path(name))

    def remove(self, name: str) -> None:
        if name in self.names():
            self._files.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"


def open_checkpoint(location: str) -> tuple[str, Place]:
    """Return the query's id, and the place of its decisions. Raises CheckpointUnusable."""
    try:
        root, own = _places(location)
        metadata = root.read("metadata")
    except (OSError, ValueError, NotImplementedError) as error:
        raise CheckpointUnusable(
            location, f"Spark's file metadata is not found there ({error})"
        ) from error
    return _query_id(location, metadata), own


def _places(location: str) -> tuple[Place, Place]:
    """Return the checkpoint and our directory in it."""
    scheme = _SCHEME.match(location)
    if scheme is None or scheme[1].lower() == "file":
        path = Path(_local_path(location, scheme))
        return LocalPlace(path), LocalPlace(path / DIRECTORY)
    known = _ALIASES.get(scheme[1].lower(), scheme[1].lower())
    files, path_there = fs.FileSystem.from_uri(known + location[scheme.end(1) :])
    path_there = path_there.rstrip("/")
    return RemotePlace(files, path_there), RemotePlace(files, f"{path_there}/{DIRECTORY}")


def _local_path(location: str, scheme: re.Match[str] | None) -> str:
    """Return the path of `file:/x` and `file:///x`, as of `/x`."""
    if scheme is None:
        return location
    rest = location[scheme.end() :]
    return "/" + rest.lstrip("/")


def _query_id(location: str, metadata: bytes) -> str:
    try:
        found: Any = json.loads(metadata)["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointUnusable(location, "its file metadata has no id of a query") from error
    if not isinstance(found, str) or not found:
        raise CheckpointUnusable(location, "its file metadata has no id of a query")
    return found
