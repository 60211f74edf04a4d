"""The entries, term and vote that a controller's disk would have after a power loss.

It reads only the simulated disks, each file from where it was read last. A disk that was damaged or
replaced counts as having everything, since its process had reported truthfully before.

Source: Raft paper, figure 2 (persistent state); docs/formats/raft-log.md.
"""

from typing import Protocol

from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import HardState
from penstock.runtime.raft.log_file import read_frame, read_head
from simulator.kernel.inode import Inode
from simulator.run.server import Server

LOG = "/raft.log"


class RaftDisks:
    """See the module."""

    def __init__(self) -> None:
        self._logs: dict[str, _DurableLog] = {}

    def has(self, server: Server, index: RaftIndex, term: Term) -> bool:
        """Whether the entry, or a snapshot that includes it, is durable there."""
        return may_hold_anything(server) or self.has_now(server, index, term)

    def has_now(self, server: Server, index: RaftIndex, term: Term) -> bool:
        """Whether it is durable there, whatever became of another disk of that host."""
        log = self._read(server)
        return log.is_there and (index <= log.base or log.terms.get(index) == term)

    def last_index(self, server: Server) -> int:
        """Return the last durable entry, or the one that the log begins behind."""
        log = self._read(server)
        return next(reversed(log.terms), log.base)

    def state(self, server: Server) -> HardState:
        """Return the durable term and vote; for a disk that may hold anything ask first."""
        return self._read(server).state

    def directory_id(self, server: Server) -> str:
        """Return the directory that the durable log names as its own."""
        return self._read(server).directory_id

    def _read(self, server: Server) -> "_DurableLog":
        log = self._logs.setdefault(server.name, _DurableLog())
        log.read(server)
        return log


def may_hold_anything(server: Server) -> bool:
    """Whether the disk was damaged or replaced, or is being cut off at this moment."""
    return is_unreadable(server) or server.is_disk_lost


def is_unreadable(server: Server) -> bool:
    """Whether nothing follows from what the disk holds now."""
    return server.is_disk_damaged or server.disk.is_cut


class CountedDisk(Protocol):
    """What one member's disk would hold after a loss of power."""

    name: str
    """Whose it is, for people."""

    @property
    def is_unreadable(self) -> bool:
        """Whether nothing follows from it."""

    @property
    def is_named(self) -> bool:
        """Whether its log was begun with a directory id."""

    @property
    def directory_id(self) -> str:
        """The directory that the log names as its own."""

    def has_now(self, index: RaftIndex, term: Term) -> bool:
        """Whether the entry, or a snapshot that includes it, is there."""


class ServerDisk:
    """The disk of a simulated server; every log there was begun with a directory id."""

    is_named = True

    def __init__(self, server: Server, disks: RaftDisks) -> None:
        self.name = server.name
        self._server = server
        self._disks = disks

    @property
    def is_unreadable(self) -> bool:
        """See CountedDisk."""
        return is_unreadable(self._server)

    @property
    def directory_id(self) -> str:
        """See CountedDisk."""
        return self._disks.directory_id(self._server)

    def has_now(self, index: RaftIndex, term: Term) -> bool:
        """See CountedDisk."""
        return self._disks.has_now(self._server, index, term)


class _DurableLog:
    """One voter's durable log, read on from where it was read last."""

    def __init__(self) -> None:
        self.directory_id = ""
        self.base = 0
        """Entries up to here are a snapshot's."""
        self.terms: dict[int, int] = {}
        self.state = HardState()
        self._inode: Inode | None = None
        self._position = 0

    @property
    def is_there(self) -> bool:
        """Whether there is a file at all."""
        return self._inode is not None

    def read(self, server: Server) -> None:
        """Go on to the durable end."""
        names = server.disk.files.durable
        inode = next((name for path, name in names.items() if path.endswith(LOG)), None)
        if inode is not self._inode or (inode and len(inode.durable) < self._position):
            self._inode, self.terms, self._position = inode, {}, 0
            self.state = HardState()
        if inode is None or len(inode.durable) == self._position:
            return
        # Not copied: behind the last frame the file is prepared far ahead, and read all the time.
        view = memoryview(inode.durable)[self._position :]
        at = 0
        if self._position == 0:
            head = read_head(view)
            self.base, at = head.base_index, head.bytes_count
            self.directory_id = head.directory_id
        while (frame := read_frame(view, at)) is not None:
            self.state = frame.state
            if frame.entries:
                while self.terms and next(reversed(self.terms)) >= frame.first_index:
                    self.terms.popitem()  # they stand in ascending order
                self.terms.update((entry.index, entry.term) for entry in frame.entries)
            at = frame.end_position
        self._position += at
