"""The metadata log of one node: a ReplicatedLog with one voter and one disk.

    propose ─► queue ─► one group: write, fsync (worker) ─► apply each, answer each (loop) ─► next

Groups form while the disk is busy: everything proposed during one fsync shares the next. One
operation is under way at a time, so the worker is the only one that touches the file. `trim` writes
a new file (snapshot, then the frames that reach beyond it) beside the old one and renames it over.

A full disk fails the group, which is cut off again, and later proposals may succeed. A failed fsync
or rename is final: what the file then holds is unknown until it is read again, so the log is fenced
and the node has to be restarted.

Source: controller/replicated_log.py (the port and its rules), controller/metadata_file.py (bytes).
It is no consensus: with several controllers, Raft stands behind the same port.
"""

import errno
import logging
from collections import deque
from collections.abc import Callable

from penstock.base.invariant import invariant
from penstock.base.ports import Buffer, Disk, DiskFile, Offload, Scheduler
from penstock.controller.errors import (
    CorruptMetadata,
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    MetadataQueueFull,
)
from penstock.controller.metadata_file import (
    Frame,
    MetadataFile,
    encode_frame,
    encode_head,
    read_file,
)
from penstock.controller.replicated_log import (
    Leadership,
    OnLeadership,
    ProposalDone,
    StateMachine,
)

SNAPSHOT_AFTER_BYTES = 4 << 20
"""Entries since the last snapshot that make a new one worth its cost; reading 4 MiB takes a few
tens of milliseconds at start. A snapshot larger than this waits until the log is as large."""

PROPOSALS_MAX = 10_000
"""Proposals that may wait; beyond it they are refused rather than queued."""

GROUP_BYTES_MAX = 16 << 20
"""Largest group in one write; an entry larger than this goes alone."""

_FILE = "log"
_NEW_FILE = "log.new"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_Proposal = tuple[bytes, ProposalDone]

log = logging.getLogger(__name__)


class MetadataLog:
    """See the module. All methods and callbacks are for the loop."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        offload: Offload,
        scheduler: Scheduler,
        *,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
        own_id: int = 0,
    ) -> None:
        """Read the log in `directory`, or make an empty one. Blocking: for the start of a node.

        Raises:
            CorruptMetadata, UnsupportedMetadata: it can not be read, and the text says where.
            OSError: the disk refused.
        """
        self._own_id = own_id
        self._disk = disk
        self._directory = directory
        self._offload = offload
        self._scheduler = scheduler
        self._snapshot_after_bytes = snapshot_after_bytes
        self.on_leadership: OnLeadership | None = None
        """Never called: a log with one voter leads from its start to its end."""
        self._machine: StateMachine | None = None
        self._waiting: deque[_Proposal] = deque()
        self._trim: tuple[int, bytes] | None = None
        self._is_busy = False
        self._fenced: MetadataLogFenced | None = None
        self.on_fenced: Callable[[Exception], None] | None = None
        """Called once when the disk has failed; nothing about metadata can be changed then."""
        self._file, self._found = self._open()
        self._end_position = self._found.end_position
        self._snapshot_bytes = len(self._found.snapshot)
        self._snapshot_end = self._end_position - _frames_bytes(self._found.frames)
        self._applied_index = 0

    @property
    def leadership(self) -> Leadership:
        """This process, always."""
        return Leadership(leader_id=self._own_id, term=1, is_leader=self._machine is not None)

    @property
    def applied_index(self) -> int:
        """Index of the last entry given to the machine, 0 for none."""
        return self._applied_index

    @property
    def is_fenced(self) -> bool:
        """Whether the disk has failed; nothing about metadata can be changed then."""
        return self._fenced is not None

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended since the last snapshot."""
        appended = self._end_position - self._snapshot_end
        return appended > max(self._snapshot_after_bytes, self._snapshot_bytes)

    def start(self, machine: StateMachine) -> None:
        """Give the machine what was found on disk."""
        assert self._machine is None, "a log is started once"
        self._machine = machine
        found = self._found
        self._applied_index = found.snapshot_index
        if found.snapshot_index:
            machine.install_snapshot(found.snapshot_index, found.snapshot)
        for frame in found.frames:
            for at, entry in enumerate(frame.entries):
                if frame.first_index + at > found.snapshot_index:
                    self._apply(frame.first_index + at, entry)
        invariant(self._applied_index == found.last_index, "every entry was applied")
        self._found = found._replace(snapshot=memoryview(b""), frames=[])

    def propose(self, payload: bytes, done: ProposalDone) -> None:
        """Queue an entry; `done` comes after it was applied, or with what went wrong."""
        assert self._machine is not None, "start the log first"
        if self._fenced is not None:
            self._fail_later(done, self._fenced)
        elif len(self._waiting) >= PROPOSALS_MAX:
            self._fail_later(done, MetadataQueueFull(PROPOSALS_MAX))
        else:
            self._waiting.append((payload, done))
            self._scheduler.call_soon(self._pump)

    def trim(self, index: int, snapshot: bytes) -> None:
        """Put `snapshot` in place of the entries up to `index` when the disk is free."""
        assert 0 < index <= self._applied_index, "a snapshot stands for applied entries"
        if self._fenced is None:
            self._snapshot_end = self._end_position  # not again before as much is appended
            self._trim = (index, snapshot)
            self._scheduler.call_soon(self._pump)

    def close(self) -> None:
        """Fail what waits; the operation under way, if any, finishes on its own."""
        if self._fenced is None:
            self._fence("the node is stopping")
        if not self._is_busy:
            self._file.close()

    def _pump(self) -> None:
        if self._is_busy or self._fenced is not None:
            return
        if self._trim is not None:
            index, snapshot = self._trim
            self._trim = None
            self._is_busy = True
            self._offload.submit(lambda: self._rewrite(index, snapshot), self._on_rewritten)
        elif self._waiting:
            group = self._take_group()
            self._is_busy = True
            frame = encode_frame(self._applied_index + 1, [payload for payload, _ in group])
            self._offload.submit(
                lambda: self._append(frame), lambda end, error: self._on_appended(group, end, error)
            )

    def _take_group(self) -> list[_Proposal]:
        group = [self._waiting.popleft()]
        size = len(group[0][0])
        while self._waiting and size + len(self._waiting[0][0]) <= GROUP_BYTES_MAX:
            group.append(self._waiting.popleft())
            size += len(group[-1][0])
        return group

    def _on_appended(
        self, group: list[_Proposal], end: int | None, error: BaseException | None
    ) -> None:
        self._is_busy = False
        if end is None:
            self._on_failure(group, error)
            return
        self._end_position = end
        for payload, done in group:
            self._apply(self._applied_index + 1, payload)
            done(self._applied_index)
        self._after_operation()

    def _on_failure(self, group: list[_Proposal], error: BaseException | None) -> None:
        """Called for a group that is not in the log: nothing of it was applied."""
        if not isinstance(error, MetadataError):
            assert error is not None
            raise error
        if isinstance(error, MetadataLogFenced):
            self._on_disk_failed(error)
        for _, done in group:
            done(error)
        self._after_operation()

    def _on_rewritten(
        self, rewritten: tuple[DiskFile, int, int] | None, error: BaseException | None
    ) -> None:
        self._is_busy = False
        if rewritten is not None:
            self._file.close()
            self._file, self._snapshot_end, self._end_position = rewritten
            self._snapshot_bytes = self._snapshot_end
        elif isinstance(error, MetadataLogFenced):
            self._on_disk_failed(error)
        elif isinstance(error, MetadataLogFull):
            log.warning("metadata snapshot put off: %s", error)
        else:
            assert error is not None
            raise error
        self._after_operation()

    def _after_operation(self) -> None:
        if self._fenced is not None:
            self._file.close()
        else:
            self._pump()

    def _apply(self, index: int, payload: Buffer) -> None:
        invariant(index == self._applied_index + 1, "entries are applied in order", index=index)
        assert self._machine is not None
        self._applied_index = index
        self._machine.apply(index, payload)

    def _on_disk_failed(self, error: MetadataLogFenced) -> None:
        log.critical("metadata log fenced: %s; check the disk and restart the node", error)
        self._fence(str(error))
        if self.on_fenced is not None:
            self.on_fenced(error)

    def _fence(self, reason: str) -> None:
        self._fenced = MetadataLogFenced(f"metadata log takes no more changes: {reason}")
        self._trim = None
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            self._fail_later(done, self._fenced)

    def _fail_later(self, done: ProposalDone, error: MetadataError) -> None:
        self._scheduler.call_soon(lambda: done(error))

    # What follows runs on the worker, one call at a time (or at the start of the node).

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _open(self) -> tuple[DiskFile, MetadataFile]:
        self._disk.make_directory(self._directory)
        self._disk.remove(self._path(_NEW_FILE))
        try:
            file = self._disk.open(self._path(_FILE))
        except FileNotFoundError:
            file = self._make_file(encode_head(0, b""))
            return file, read_file(encode_head(0, b""))
        size = file.size()
        try:
            found = read_file(file.read(0, size))
        except CorruptMetadata as error:
            file.close()
            raise CorruptMetadata(f"{self._path(_FILE)}: {error}") from error
        if found.end_position < size:
            log.warning(
                "metadata log: cut %d bytes of an unfinished write", size - found.end_position
            )
            file.truncate(found.end_position)
            file.sync()
        return file, found

    def _append(self, frame: bytes) -> int:
        start = self._end_position
        try:
            self._file.write(start, [frame])
        except OSError as error:
            self._cut(start, error)
            raise MetadataLogFull(f"no room for a metadata entry: {error.strerror}") from error
        self._sync(self._file)
        return start + len(frame)

    def _cut(self, position: int, cause: OSError) -> None:
        """Undo a failed write. Raises MetadataLogFenced unless it failed for want of room."""
        try:
            self._file.truncate(position)
        except OSError as error:
            raise MetadataLogFenced(f"a failed write could not be undone: {error}") from error
        if cause.errno not in _NO_ROOM:
            raise MetadataLogFenced(f"write failed: {cause}") from cause
        self._sync(self._file)

    def _sync(self, file: DiskFile) -> None:
        try:
            file.sync()
        except OSError as error:
            raise MetadataLogFenced(f"fsync failed: {error}") from error

    def _rewrite(self, index: int, snapshot: bytes) -> tuple[DiskFile, int, int]:
        """Put a new file with snapshot and later frames in place; return it and where they end."""
        found = read_file(self._file.read(0, self._end_position))
        invariant(found.last_index >= index, "the file holds what the snapshot stands for")
        kept = [frame for frame in found.frames if frame.next_index - 1 > index]
        head = encode_head(index, snapshot)
        tail = self._file.read(kept[0].position, _frames_bytes(kept)) if kept else b""
        return self._make_file(head, tail), len(head), len(head) + len(tail)

    def _make_file(self, *parts: Buffer) -> DiskFile:
        file = self._disk.open(self._path(_NEW_FILE), create=True)
        try:
            file.truncate(0)
            file.write(0, parts)
            file.sync()
        except OSError as error:
            file.close()
            if error.errno in _NO_ROOM:
                raise MetadataLogFull(f"no room for a metadata snapshot: {error}") from error
            raise MetadataLogFenced(f"the new metadata log is not durable: {error}") from error
        try:
            self._disk.rename(self._path(_NEW_FILE), self._path(_FILE))
        except OSError as error:
            file.close()
            raise MetadataLogFenced(f"the metadata log was not replaced: {error}") from error
        return file


def _frames_bytes(frames: list[Frame]) -> int:
    return frames[-1].end_position - frames[0].position if frames else 0
