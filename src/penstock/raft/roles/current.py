"""Which role a member has, and the transitions between roles.

    follower ──timeout──► pre-candidate ──majority──► candidate ──majority──► leader
       ▲  └───asked by the leader (transfer)──────────►  │                      │
       └──later term, leader of this term, lost vote, no majority, removed──────┘

Source: Raft paper, figure 4, with the pre-candidate of the thesis, 9.6.
"""

from penstock.base.ids import PeerId
from penstock.base.invariant import invariant
from penstock.raft.core import Core
from penstock.raft.ids import Term
from penstock.raft.ready import NO_PEER
from penstock.raft.roles.candidate import Candidate
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader

AnyRole = Follower | Candidate | Leader


class Roles:
    """Holds the present role; the roles call it as `core.transitions`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        core.transitions = self
        self.current: AnyRole = Follower(core)

    def follow(self, term: Term, leader_id: PeerId) -> None:
        """Become a follower in `term`, which is not below the current one."""
        self._core.enter_term(term)
        self._core.leader_id = leader_id
        self.current = Follower(self._core)

    def campaign(self) -> None:
        """Ask whether an election could be won (pre-vote), if this member votes at all."""
        core = self._core
        core.leader_id = NO_PEER
        if not core.may_campaign:
            self.follow(core.term, NO_PEER)
            return
        candidate = Candidate(core, is_pre_vote=True, is_transfer=False)
        self.current = candidate
        candidate.begin()

    def stand(self, *, is_transfer: bool) -> None:
        """Begin a new term as its candidate."""
        core = self._core
        core.enter_term(Term(core.term + 1))
        core.voted_for = core.own_id
        candidate = Candidate(core, is_pre_vote=False, is_transfer=is_transfer)
        self.current = candidate
        candidate.begin()

    def lead(self) -> None:
        """Become the leader of the current term."""
        core = self._core
        invariant(core.voted_for == core.own_id, "leads without the own vote", term=core.term)
        core.leader_id = core.own_id
        core.hurries_left = 0
        leader = Leader(core)
        self.current = leader
        leader.begin()
