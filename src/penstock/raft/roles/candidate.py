"""Pre-candidates and candidates: they count votes, in two rounds.

The first round asks whether a vote would be given; only a member that gets a majority there begins
a new term. So a member that was cut off does not come back with a term that deposes a good leader.

A candidate's own vote counts only once it is durable: otherwise a single voter could lead a term,
forget it in a crash, and lead it again with other entries.

Source: Raft paper 5.2; Raft thesis 9.6 (pre-vote).
"""

from penstock.base.ids import PeerId
from penstock.raft.core import Core
from penstock.raft.ids import Term
from penstock.raft.messages import Message, VoteRequest, VoteResponse
from penstock.raft.quorum import VoteOutcome, vote_outcome
from penstock.raft.ready import HardState, Role


class Candidate:
    """One round of one election."""

    def __init__(self, core: Core, *, is_pre_vote: bool, is_transfer: bool) -> None:
        self._core = core
        self._is_pre_vote = is_pre_vote
        self._granted: dict[PeerId, None] = {}
        self._rejected: dict[PeerId, None] = {}
        self._is_asking = is_pre_vote
        """Whether the requests were sent: a vote request waits for the disk."""
        self._waited_ticks = 0
        self._wait_ticks = core.candidate_wait_ticks()
        self._ask(is_transfer=is_transfer)

    @property
    def kind(self) -> Role:
        """The role's name."""
        return Role.PRE_CANDIDATE if self._is_pre_vote else Role.CANDIDATE

    def begin(self) -> None:
        """Count this member's pre-vote; its vote is counted by on_persisted."""
        if self._is_pre_vote:
            self._count(self._core.own_id, is_granted=True)

    def tick(self) -> None:
        """Begin again if nothing was decided in time; waiting for the disk does not count."""
        self._waited_ticks += self._is_asking
        if self._waited_ticks >= self._wait_ticks:
            self._core.transitions.campaign()

    def on_persisted(self, hard_state: HardState) -> None:
        """Count this member's vote once it is durable."""
        core = self._core
        own = hard_state.term == core.term and hard_state.voted_for == core.own_id
        if own and not self._is_pre_vote:
            self._is_asking = True
            self._count(core.own_id, is_granted=True)

    def step(self, message: Message) -> None:
        """Take a message of the current term."""
        if not isinstance(message, VoteResponse) or message.is_pre_vote != self._is_pre_vote:
            return
        if self._is_pre_vote and message.is_granted and message.term != self._core.term + 1:
            return  # a late answer to an earlier round: its leader may have come back since
        # A peer that votes with another directory than it has now has lost its votes.
        if self._core.configuration.is_voter(message.sender, message.directory_id):
            self._count(message.sender, is_granted=message.is_granted)

    def _ask(self, *, is_transfer: bool) -> None:
        core = self._core
        # A pre-vote promises nothing; a vote request must not leave before our own vote is durable.
        send = core.send if self._is_pre_vote else core.send_persisted
        for voter in core.other_voters:
            send(voter, self._request(voter, is_transfer=is_transfer))

    def _request(self, voter: PeerId, *, is_transfer: bool) -> VoteRequest:
        core = self._core
        return VoteRequest(
            sender=core.own_id,
            term=Term(core.term + 1) if self._is_pre_vote else core.term,
            is_pre_vote=self._is_pre_vote,
            is_transfer=is_transfer,
            last_index=core.log.last_index,
            last_term=core.log.last_term,
            directory_id=core.own_directory,
            voter_directory_id=core.configuration.directory_of(voter),
        )

    def _count(self, voter: PeerId, *, is_granted: bool) -> None:
        # The first answer counts: a voter does not change its mind within a term.
        if voter not in self._granted and voter not in self._rejected:
            (self._granted if is_granted else self._rejected)[voter] = None
        core = self._core
        outcome = vote_outcome(core.configuration.voter_ids, self._granted, self._rejected)
        if outcome is VoteOutcome.LOST:
            core.transitions.follow(core.term, core.leader_id)
        elif outcome is VoteOutcome.WON and self._is_pre_vote:
            core.transitions.stand(is_transfer=False)
        elif outcome is VoteOutcome.WON:
            core.transitions.lead()
