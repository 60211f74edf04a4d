"""Check: all processes have the same committed entries in the metadata log.

An entry is identified by its index and term. If two processes have committed different terms at one
index, the histories have diverged, whether or not both entries were applied yet.

Source: Raft paper, figure 3 (state machine safety).
"""

from penstock.raft.ids import RaftIndex
from penstock.runtime.raft.raft_log import RaftLog
from simulator.run.server import Server


class AgreedEntries:
    """See the module. Entries that were compacted before a check are skipped."""

    def __init__(self) -> None:
        self._terms: dict[int, tuple[int, str]] = {}
        """Index -> (term, first host that committed it)."""
        self._looked: dict[str, tuple[int, int]] = {}
        """Host -> (start of the process, last index that was looked at)."""

    def look(self, server: Server) -> str:
        """Look at what a process has agreed on since the last time; return what is wrong."""
        node = server.node
        if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
            return ""
        log = node.plane.log
        start, looked = self._looked.get(server.name, (0, 0))
        if start != server.starts:
            looked = 0
        agreed = log.commit_index
        self._looked[server.name] = (server.starts, agreed)
        for index in map(RaftIndex, range(looked + 1, agreed + 1)):
            term = log.term_at(index)
            if term is None:
                continue
            first, who = self._terms.setdefault(index, (term, server.name))
            if first != term:
                return f"{server.name}: entry {index} is of term {term}, and of {first} for {who}"
        return ""
