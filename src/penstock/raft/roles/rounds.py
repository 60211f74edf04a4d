"""Rounds: how a leader knows that it still was the leader at some moment.

Every heartbeat begins a round with the next number, all messages to followers carry the current
number and the answers repeat it. A majority that answered round r knew no later leader when r
began. So a read waits for a round that began after it was asked for; and until the voters'
promises for round r end, nobody else can be elected.

Clock assumption of the lease: a voter's ticks are not faster than the leader's by more than
lease_margin_ticks in election_ticks_min. Reads by rounds assume nothing about clocks.

Source: Raft thesis 6.4 (read index), 6.4.1 (leases, and why a transfer ends them).
"""

from collections import deque
from collections.abc import Iterator, Mapping

from penstock.raft.core import Core
from penstock.raft.errors import ReadRefused
from penstock.raft.quorum import majority_value
from penstock.raft.ready import ReadState
from penstock.raft.roles.progress import Progress


class Rounds:
    """The rounds of one leader in one term."""

    def __init__(self, core: Core, peers: Mapping[int, Progress]) -> None:
        self._core = core
        self._peers = peers
        self.current = 0
        self._begun: deque[tuple[int, int]] = deque()
        """(round, tick at which it began) of those young enough for a lease."""
        self._asked: list[int] = []
        self._waiting: deque[tuple[int, ReadState]] = deque()
        """(round, answer), rounds ascending."""
        self._is_lease_forfeited = False

    def begin(self) -> None:
        """Begin the next round; whoever feeds the peers sees that they have not got it yet."""
        self.current += 1
        now = self._core.ticks
        self._begun.append((self.current, now))
        oldest = now - self._core.config.election_ticks_max
        while self._begun[0][1] < oldest:
            self._begun.popleft()

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
        confirmed = self._majority({p.peer_id: p.acked_round for p in self._counted()}, silent=0)
        while self._waiting and self._waiting[0][0] <= confirmed:
            self._core.reads.append(self._waiting.popleft()[1])

    def forfeit_lease(self) -> None:
        """End leases for this term: somebody was told to campaign in spite of the promises."""
        self._is_lease_forfeited = True

    def is_lease_valid(self) -> bool:
        """Whether a majority still keeps its promise to vote for nobody else."""
        config = self._core.config
        if not config.lease_reads or self._is_lease_forfeited:
            return False
        began = dict(self._begun)
        ticks = {
            p.peer_id: began.get(p.acked_round, -config.election_ticks_max) for p in self._counted()
        }
        long_ago = -config.election_ticks_max
        end = self._majority(ticks, own=self._core.ticks, silent=long_ago)
        end += config.election_ticks_min
        return self._core.ticks < end - config.lease_margin_ticks

    def _counted(self) -> Iterator[Progress]:
        """Return what is known of voters that answer with the directory they vote with."""
        return (p for p in self._peers.values() if p.counts_in(self._core.configuration))

    def _majority(self, values: Mapping[int, int], *, silent: int, own: int | None = None) -> int:
        core = self._core
        mine = self.current if own is None else own
        return majority_value(
            mine if voter == core.own_id else values.get(voter, silent)
            for voter in core.configuration.voter_ids
        )
