"""Check: committed entries of the metadata log are durable on a majority of the voters' disks.

    a process has committed up to N ─► each entry up to N ─► in the durable log of how many voters?
    a process has applied up to N   ─► entry N is in its own durable log

The contents of a disk after a power loss count, not what its process believes. A disk that was
damaged or replaced counts as having everything. Entries behind a snapshot were checked before.

Source: Raft paper 5.3 (an entry is committed once a majority has stored it).
"""

from collections.abc import Iterable

from penstock.raft.ids import RaftIndex
from penstock.runtime.raft.raft_log import RaftLog
from simulator.checks.raft.disks import RaftDisks, is_unreadable
from simulator.checks.raft.known import applied_index, voters_of
from simulator.run.server import Server


class KeptEntries:
    """See the module."""

    def __init__(self, disks: RaftDisks) -> None:
        self._disks = disks
        self._checked = 0
        """Entries up to here were looked at (inclusive)."""
        self._voters: frozenset[int] = frozenset()
        """As they were at the last look: a change of them is agreed on by the old or the new."""

    def look(self, server: Server, servers: Iterable[Server]) -> str:
        """Look at what this process calls agreed since the last time; return what is wrong."""
        return self._applied(server) or self._agreed(server, servers)

    def _applied(self, server: Server) -> str:
        """What a process has applied is on its own disk."""
        node = server.node
        if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
            return ""
        log = node.plane.log
        applied = applied_index(log)
        term = log.term_at(applied)
        if term is None or log.is_fenced or is_unreadable(server):
            return ""
        if self._disks.has_now(server, applied, term):
            return ""
        return f"{server.name}: entry {applied} of term {term} is applied, and not on its disk"

    def _agreed(self, server: Server, servers: Iterable[Server]) -> str:
        node = server.node
        if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
            return ""
        log = node.plane.log
        agreed = log.commit_index
        if agreed <= self._checked or log.is_fenced:
            return ""
        first, self._checked = self._checked + 1, agreed
        voters = voters_of(log)
        possible = [some for some in dict.fromkeys((voters, self._voters)) if some]
        self._voters = voters
        by_id = {one.host.process_id: one for one in servers if one.host.is_controller}
        for index in map(RaftIndex, range(first, agreed + 1)):
            term = log.term_at(index)
            if term is None:
                continue
            holders = {peer for peer, one in by_id.items() if self._disks.has(one, index, term)}
            if not any(2 * len(holders & some) > len(some) for some in possible):
                return (
                    f"{server.name}: entry {index} of term {term} is agreed on, and durable on "
                    f"{sorted(holders)} alone of voters {sorted(voters)}"
                )
        return ""
