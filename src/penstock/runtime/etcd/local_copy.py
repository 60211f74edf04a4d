"""The durable copy of the log on this process's own disk, for a start while etcd is unreachable.

    append   entries after the last one: write, fsync
    replace  a snapshot from elsewhere in place of everything
    compact  an own snapshot in place of the entries it covers

One operation is in progress at a time, on a worker; the next waits. The file is a metadata log file
as a single node has it; its entries and snapshot carry their ids (runtime/etcd/entry.py).

Source: controller/metadata/metadata_file.py (bytes). Nothing in the copy is ever newer than etcd.
"""

import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from penstock.base.invariant import invariant
from penstock.base.ports import Buffer, Disk, DiskFile, Offload
from penstock.controller.errors import (
    CorruptMetadata,
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
)
from penstock.controller.metadata.metadata_file import encode_frame, encode_head, read_file
from penstock.runtime.etcd.entry import (
    NO_ENTRY,
    Entry,
    EntryId,
    decode_local_snapshot,
    encode_entry,
    encode_local_snapshot,
    whole_entry,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

_FILE = "copy"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

CopyDone = Callable[[MetadataError | None], None]
"""MetadataLogFull: nothing changed, retry later; MetadataLogFenced: the disk has failed."""


class LocalFiles(NamedTuple):
    """Location of the copy: a directory of the data directory, and the disk's workers."""

    disk: Disk
    directory: str
    offload: Offload


class Found(NamedTuple):
    """Contents of the copy when it was opened."""

    snapshot_index: int
    snapshot_id: EntryId
    snapshot: Buffer
    entries: list[Entry]


class LocalCopy:
    """See the module. Methods and callbacks run on the event loop."""

    def __init__(self, files: LocalFiles) -> None:
        """Read the copy, or create an empty one. Blocking: call while the process starts.

        Raises:
            CorruptMetadata, UnsupportedMetadata: it cannot be read; the message says where.
            OSError: an operation of the disk failed.
        """
        self._disk = files.disk
        self._path = f"{files.directory}/{_FILE}"
        self._offload = files.offload
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._is_closed = False
        self._failure: MetadataLogFenced | None = None
        files.disk.make_directory(files.directory)
        self._file, self.found = self._open()
        self._appended_bytes = self._end_position - self._snapshot_end

    @property
    def appended_bytes(self) -> int:
        """Bytes of entries since the newest snapshot."""
        return self._appended_bytes

    @property
    def snapshot_bytes(self) -> int:
        """Size of the newest snapshot."""
        return self._snapshot_end

    def append(self, first_index: int, entries: Sequence[Entry], done: CopyDone) -> None:
        """Make `entries` durable after the present ones."""
        frame = encode_frame(first_index, [encode_entry(entry) for entry in entries])

        def finish(error: MetadataError | None) -> None:
            if error is None:
                self._appended_bytes += len(frame)
            done(error)

        self._enqueue(lambda: self._append(frame), finish)

    def replace(self, index: int, entry_id: EntryId, snapshot: bytes, done: CopyDone) -> None:
        """Replace everything by `snapshot`, which covers all entries up to `index`."""
        content = encode_head(index, encode_local_snapshot(entry_id, snapshot))
        self._appended_bytes = 0
        self._enqueue(lambda: self._rewrite(content, b""), done)

    def compact(self, index: int, snapshot: bytes, done: Callable[[EntryId | None], None]) -> None:
        """Replace the entries up to `index`, all of them in the copy, by `snapshot`.

        `done` gets the id of that entry, or None after a failure; a disk that has failed for good
        is reported by the next append.
        """
        self._appended_bytes = 0  # no new snapshot until as much is appended

        def finish(entry_id: EntryId | None, error: MetadataError | None) -> None:
            if error is not None:
                log.warning("metadata snapshot put off: %s", error)
            done(entry_id)

        self._run(lambda: self._compact(index, snapshot), finish)

    def close(self) -> None:
        """Stop; an operation in progress finishes without a callback."""
        self._is_closed = True
        self._waiting.clear()
        if not self._is_busy:
            self._file.close()

    def _enqueue(self, work: Callable[[], None], done: CopyDone) -> None:
        self._run(work, lambda _, error: done(error))

    def _run(
        self, work: Callable[[], T], done: Callable[[T | None, MetadataError | None], None]
    ) -> None:
        def finish(result: T | None, error: BaseException | None) -> None:
            self._is_busy = False
            if self._is_closed:
                self._file.close()
                return
            if error is not None and not isinstance(error, MetadataError):
                raise error
            if isinstance(error, MetadataLogFenced):
                self._failure = error
            done(result, error)
            self._next()

        def guarded() -> T:
            if self._failure is not None:
                raise self._failure
            return work()

        self._waiting.append(lambda: self._offload.submit(guarded, finish))
        self._next()

    def _next(self) -> None:
        if self._waiting and not self._is_busy:
            self._is_busy = True
            self._waiting.popleft()()

    # The methods below run on the worker, one call at a time, or while the process starts.

    def _open(self) -> tuple[DiskFile, Found]:
        try:
            file = self._disk.open(self._path)
        except FileNotFoundError:
            self._disk.replace(self._path, encode_head(0, b""))
            file = self._disk.open(self._path)
        size = file.size()
        try:
            content = read_file(file.read(0, size))
            snapshot_id, snapshot = decode_local_snapshot(content.snapshot)
            entries = [
                whole_entry(entry)
                for frame in content.frames
                for index, entry in enumerate(frame.entries, frame.first_index)
                if index > content.snapshot_index
            ]
        except CorruptMetadata as error:
            file.close()
            raise CorruptMetadata(
                f"{self._path}: {error}; etcd has the same entries: move the file away and start"
            ) from error
        if content.end_position < size:
            file.truncate(content.end_position)
            file.sync()
        self._end_position = content.end_position
        frames = content.frames
        self._snapshot_end = frames[0].position if frames else content.end_position
        return file, Found(content.snapshot_index, snapshot_id, snapshot, entries)

    def _append(self, frame: bytes) -> None:
        start = self._end_position
        try:
            self._file.write(start, [frame])
        except OSError as error:
            self._cut(start, error)
            raise MetadataLogFull(f"no room for a metadata entry: {error.strerror}") from error
        self._sync()
        self._end_position = start + len(frame)

    def _cut(self, position: int, cause: OSError) -> None:
        try:
            self._file.truncate(position)
        except OSError as error:
            raise MetadataLogFenced(f"a failed write could not be undone: {error}") from error
        if cause.errno not in _NO_ROOM:
            raise MetadataLogFenced(f"write failed: {cause}") from cause
        self._sync()

    def _sync(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            raise MetadataLogFenced(f"fsync failed: {error}") from error

    def _compact(self, index: int, snapshot: bytes) -> EntryId | None:
        content = read_file(self._file.read(0, self._end_position))
        invariant(index <= content.last_index, "the copy has what the snapshot covers")
        if index < content.snapshot_index:
            return None  # a newer one was installed in the meantime
        entry_id = NO_ENTRY
        if index == content.snapshot_index:
            entry_id, _ = decode_local_snapshot(content.snapshot)
        for frame in content.frames:
            if frame.first_index <= index < frame.next_index:
                entry_id = whole_entry(frame.entries[index - frame.first_index]).entry_id
        kept = [frame for frame in content.frames if frame.next_index - 1 > index]
        start = kept[0].position if kept else content.end_position
        tail = self._file.read(start, content.end_position - start)
        self._rewrite(encode_head(index, encode_local_snapshot(entry_id, snapshot)), tail)
        return entry_id

    def _rewrite(self, head: bytes, tail: Buffer) -> None:
        try:
            self._disk.replace(self._path, b"".join([head, tail]))
            file = self._disk.open(self._path)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise MetadataLogFull(f"no room for a metadata snapshot: {error}") from error
            raise MetadataLogFenced(f"the metadata copy was not replaced: {error}") from error
        self._file.close()
        self._file = file
        self._snapshot_end = len(head)
        self._end_position = len(head) + len(tail)
