"""What the controllers agree on is durable on the disks of a majority of their voters.

    a process says: agreed up to N ─► each entry up to N ─► in the durable log of how many voters?

What a disk would hold after a loss of power counts, not what its process believes. A disk that was
damaged or replaced counts as holding everything. Entries that a snapshot stands for were looked at
before.

Source: Raft paper 5.3 (an entry is committed once a majority has stored it).
"""

from collections.abc import Iterable

from penstock.runtime.raft.log_file import read_frame, read_head
from penstock.runtime.raft.raft_log import RaftLog
from penstock.sim.kernel.inode import Inode
from penstock.sim.server import Server

LOG = "/raft.log"


class KeptEntries:
    """See the module."""

    def __init__(self) -> None:
        self._copies: dict[str, _Copy] = {}
        self._checked = 0
        """Entries up to here were looked at (inclusive)."""
        self._voters: frozenset[int] = frozenset()
        """As they were at the last look: a change of them is agreed on by the old or the new."""

    def look(self, server: Server, servers: Iterable[Server]) -> str:
        """Look at what this process calls agreed since the last time; return what is wrong."""
        node = server.node
        if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
            return ""
        log = node.plane.log
        agreed = log.commit_index
        if agreed <= self._checked or log.is_fenced:
            return ""
        first, self._checked = self._checked + 1, agreed
        status = log.status()
        voters = frozenset(one.peer_id for one in status.peers if one.is_voter)
        possible = [some for some in dict.fromkeys((voters, self._voters)) if some]
        self._voters = voters
        by_id = {one.host.process_id: one for one in servers if one.host.is_controller}
        for index in range(first, agreed + 1):
            term = log.term_at(index)
            if term is None:
                continue
            holders = {peer_id for peer_id, one in by_id.items() if self._has(one, index, term)}
            if not any(2 * len(holders & some) > len(some) for some in possible):
                return (
                    f"{server.name}: entry {index} of term {term} is agreed on, and durable on "
                    f"{sorted(holders)} alone of voters {sorted(voters)}"
                )
        return ""

    def _has(self, server: Server, index: int, term: int) -> bool:
        if server.is_disk_damaged or server.is_disk_lost or server.disk.is_cut:
            return True
        return self._copies.setdefault(server.name, _Copy()).has(server, index, term)


class _Copy:
    """The durable log of one voter, read on from where it was read last."""

    def __init__(self) -> None:
        self._inode: Inode | None = None
        self._base = 0
        self._terms: dict[int, int] = {}
        self._position = 0

    def has(self, server: Server, index: int, term: int) -> bool:
        self._read(server)
        return self._inode is not None and (index <= self._base or self._terms.get(index) == term)

    def _read(self, server: Server) -> None:
        names = server.disk.files.durable
        inode = next((one for path, one in names.items() if path.endswith(LOG)), None)
        if inode is not self._inode or (inode and len(inode.durable) < self._position):
            self._inode, self._terms, self._position = inode, {}, 0
        if inode is None:
            return
        view = memoryview(bytes(inode.durable[self._position :]))
        at = 0
        if self._position == 0:
            head = read_head(view)
            self._base, at = head.base_index, head.bytes_count
        while (frame := read_frame(view, at)) is not None:
            if frame.entries:
                for index in [one for one in self._terms if one >= frame.first_index]:
                    del self._terms[index]
                self._terms.update((one.index, one.term) for one in frame.entries)
            at = frame.end_position
        self._position += at
