"""What an object says of itself: its envelope, its directory, the epochs of each extent in it.

The batches are not read. Everything that is read has a checksum, and is compared with the rest.

Source: docs/formats/tier.md; the reader of extent files, extents/reader.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.extents.errors import CorruptExtentFile, NewerExtentFile
from penstock.extents.layout import HEADER_BYTES, TAIL, TAIL_BYTES, Entry
from penstock.extents.reader import (
    Directory,
    Summary,
    read_directory,
    read_file_header,
    read_summary,
)
from penstock.tier.envelope import ENVELOPE_BYTES, Envelope, decode_envelope
from penstock.tier.errors import LyingObject
from penstock.tier.port import READ_BYTES_MAX, ObjectStore

WINDOW_BYTES = 4 << 20
"""Read at once from a store: one request costs as much time as a few MiB."""


class Described(NamedTuple):
    """An object as it tells of itself."""

    envelope: Envelope
    directory: Directory
    summaries: list[Summary]


@contextmanager
def lies_named(name: str) -> Iterator[None]:
    """Let what is wrong with the file in an object be told as wrong with the object."""
    try:
        yield
    except CorruptExtentFile as error:
        raise LyingObject(name, ENVELOPE_BYTES + error.at, error.reason) from error
    except NewerExtentFile as error:
        raise LyingObject(name, ENVELOPE_BYTES, str(error)) from error


class Window:
    """A part of the file in an object, for readers that can not wait."""

    def __init__(self, store: ObjectStore, name: str, file_bytes: int) -> None:
        self._store = store
        self._name = name
        self._file_bytes = file_bytes
        self._at = 0
        self._data = memoryview(b"")

    async def load(self, at: int, size: int) -> None:
        """Have these bytes of the file, and some that follow. Raises StoreError, LyingObject."""
        if self._at <= at and at + size <= self._at + len(self._data):
            return
        if not 0 <= at <= at + size <= self._file_bytes or size > READ_BYTES_MAX:
            raise LyingObject(self._name, ENVELOPE_BYTES + at, f"{size} bytes are said to be there")
        length = min(max(size, WINDOW_BYTES), self._file_bytes - at)
        self._data = await self._store.read(self._name, ENVELOPE_BYTES + at, length)
        self._at = at

    def read(self, at: int, size: int) -> memoryview:
        """Return bytes that were loaded; fewer, if they were not."""
        start = at - self._at
        return self._data[start : start + size] if start >= 0 else self._data[:0]


async def describe_object(store: ObjectStore, name: str) -> Described:
    """Return what the object `name` says of itself. Raises StoreError, LyingObject."""
    size = (await store.look(name)).size_bytes
    if size < ENVELOPE_BYTES + HEADER_BYTES + TAIL_BYTES:
        raise LyingObject(name, 0, f"an object of {size} bytes")
    envelope = decode_envelope(name, await store.read(name, 0, ENVELOPE_BYTES))
    if envelope.object_bytes != size:
        raise LyingObject(name, 0, f"{size} bytes, and not {envelope.object_bytes}")
    window = Window(store, name, envelope.file_bytes)
    with lies_named(name):
        await window.load(0, HEADER_BYTES)
        header = read_file_header(name, window.read)
        if header != (envelope.cluster_id, envelope.replica_set_id):
            raise LyingObject(name, ENVELOPE_BYTES, f"the file is one of {header}")
        directory = await _directory(name, envelope.file_bytes, window)
        summaries = [await _summary(name, entry, window) for entry in directory.entries]
    return Described(envelope, directory, summaries)


async def _directory(name: str, file_bytes: int, window: Window) -> Directory:
    tail_at = file_bytes - TAIL_BYTES
    await window.load(tail_at, TAIL_BYTES)
    at, length = TAIL.unpack_from(window.read(tail_at, TAIL_BYTES))[:2]
    if at + length == tail_at:  # else the tail is refused before the directory is looked at
        await window.load(at, file_bytes - at)
    return read_directory(name, file_bytes, window.read)


async def _summary(name: str, entry: Entry, window: Window) -> Summary:
    await window.load(entry.summary_at, entry.summary_bytes)
    return read_summary(name, entry, window.read)
