"""Rounds: how a leader knows that it still was the leader at some moment.

Every heartbeat begins a round with the next number, all messages to followers carry the current
number and the answers repeat it. A majority that answered round r knew no later leader when r
began. So a read waits for a round that began after it was asked for, and assumes nothing about
clocks.

Source: Raft thesis 6.4 (read index). Not here: leases (6.4.1), which rest on clocks.
"""

from collections import deque
from collections.abc import Mapping

from penstock.base.ids import PeerId
from penstock.raft.core import Core
from penstock.raft.errors import InvalidMessage, ReadRefused
from penstock.raft.messages import AppendResponse
from penstock.raft.quorum import majority_value
from penstock.raft.ready import ReadState
from penstock.raft.roles.progress import Progress


class Rounds:
    """The rounds of one leader in one term."""

    def __init__(self, core: Core, peers: Mapping[PeerId, Progress]) -> None:
        self._core = core
        self._peers = peers
        self.current = 0
        self._asked: list[int] = []
        self._waiting: deque[tuple[int, ReadState]] = deque()
        """(round, answer), rounds ascending."""

    def begin(self) -> None:
        """Begin the next round; the next `feed` sends it to all peers."""
        self.current += 1

    def check(self, answer: AppendResponse) -> None:
        """Raise InvalidMessage for a round that has not begun: later reads rest on it."""
        if answer.round > self.current:
            raise InvalidMessage(
                f"peer {answer.sender} answers round {answer.round}, which has not begun"
            )

    def ask(self, context: int) -> None:
        """Ask for a read. Raises ReadRefused if too many wait."""
        if len(self._asked) + len(self._waiting) >= self._core.config.reads_max:
            raise ReadRefused(self._core.own_id, "too many reads are waiting, try again later")
        self._asked.append(context)

    def begin_reads(self) -> None:
        """Begin one round for all reads asked for; needs a commit in the leader's own term.

        Before that commit the leader does not know how far its predecessors committed (6.4).
        """
        log = self._core.log
        if not self._asked or log.term(log.commit_index) != self._core.term:
            return
        self.begin()
        for context in self._asked:
            self._waiting.append((self.current, ReadState(context, log.commit_index)))
        self._asked.clear()

    def answer_reads(self) -> None:
        """Answer the reads whose round a majority has confirmed."""
        if not self._waiting:
            return
        confirmed = self._confirmed()
        while self._waiting and self._waiting[0][0] <= confirmed:
            self._core.reads.append(self._waiting.popleft()[1])

    def _confirmed(self) -> int:
        """Return the newest round that a majority of the voters' directories has answered."""
        core = self._core
        acked = {
            p.peer_id: p.acked_round
            for p in self._peers.values()
            if p.counts_in(core.configuration)
        }
        return majority_value(
            self.current if voter == core.own_id else acked.get(voter, 0)
            for voter in core.configuration.voter_ids
        )
