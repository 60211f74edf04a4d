"""What all roles of one member share: term, vote, log, timers, outgoing messages.

A role changes to another one through `transitions`, so that roles need not import each other.

Source: Raft paper, figure 2 (state); thesis 4.2.3 for the promise not to disturb a leader.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.base.ids import PeerId
from penstock.base.invariant import invariant
from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration
from penstock.raft.founding import Birth, Founding
from penstock.raft.ids import Term
from penstock.raft.learners import LearnerRegistry
from penstock.raft.log import RaftLog
from penstock.raft.messages import LearnerHello, Message
from penstock.raft.ready import NO_PEER, HardState, Outgoing, ReadState

HURRIED_CAMPAIGNS_MAX = 10
"""Campaigns with short waits after the leader's connection was closed. The others may notice the
loss a little later and refuse until then. After these campaigns the usual timeouts apply."""


class Transitions(Protocol):
    """Changes of role."""

    def follow(self, term: Term, leader_id: PeerId) -> None:
        """Become a follower in `term`, which is not below the current one."""

    def campaign(self) -> None:
        """Ask whether an election could be won (pre-vote), if this member votes at all."""

    def stand(self, *, is_transfer: bool) -> None:
        """Begin a new term as its candidate."""

    def lead(self) -> None:
        """Become the leader of the current term."""


class Core:
    """State that outlives a role."""

    transitions: Transitions

    def __init__(
        self,
        *,
        own_id: PeerId,
        config: RaftConfig,
        random_below: Callable[[int], int],
        hard_state: HardState,
        log: RaftLog,
        birth: Birth,
    ) -> None:
        self.own_id = own_id
        self.own_directory = birth.directory_id
        self.config = config
        self.random_below = random_below
        self.log = log
        self.term = hard_state.term
        self.voted_for = hard_state.voted_for
        self.leader_id = NO_PEER
        self.ticks = 0
        """Since the start of the process."""
        self.promised_until_tick = 0
        """Exclusive. Until then this member votes for nobody, because it has heard from a leader
        that other members should not depose (thesis 4.2.3). It is no basis for a lease: a restart
        or a closed connection ends it."""
        self.hurries_left = 0
        """Campaigns that still begin after a short wait; see HURRIED_CAMPAIGNS_MAX."""
        self.learners = LearnerRegistry(config)
        """Every voter keeps it, so that it can send them entries once it leads."""
        self.hearsay_voters = () if log.configurations.latest.voters else birth.first_voters
        """The voters as the last LearnerWelcome named them; this log may be older. At first the
        voters of the settings, if this log names none."""
        self.founding = Founding(self, birth.first_voters)
        self.messages: list[Outgoing] = []
        self.messages_persisted: list[Outgoing] = []
        self.reads: list[ReadState] = []

    @property
    def configuration(self) -> Configuration:
        """The voters, as the log has them now."""
        return self.log.configurations.latest

    @property
    def is_voter(self) -> bool:
        """Whether this member counts in majorities."""
        return self.configuration.is_voter(self.own_id, self.own_directory)

    @property
    def may_campaign(self) -> bool:
        """Whether this member counts, or will until its removal is committed.

        If only this member holds the entry that removes it, it must be able to lead: the others'
        logs are behind, so nobody else can. It does not count its own vote then. Source: thesis
        4.2.2.
        """
        log = self.log
        agreed = log.configurations.at(log.commit_index)
        return self.is_voter or agreed.is_voter(self.own_id, self.own_directory)

    @property
    def is_new(self) -> bool:
        """Whether this member has no log and knows no voters."""
        return self.log.last_index == 0 and not self.configuration.voters

    @property
    def other_voters(self) -> tuple[PeerId, ...]:
        """The voters without this member."""
        return tuple(p for p in self.configuration.voter_ids if p != self.own_id)

    @property
    def known_voters(self) -> dict[PeerId, str]:
        """Other voters with their addresses, from the log and from the last LearnerWelcome."""
        known = {**dict(self.hearsay_voters), **self.configuration.addresses}
        known.pop(self.own_id, None)
        return known

    def say_hello(self, to: PeerId) -> None:
        """Announce this member as a learner that wants entries."""
        hello = LearnerHello(
            sender=self.own_id,
            term=self.term,
            last_index=self.log.last_index,
            last_term=self.log.last_term,
            directory_id=self.own_directory,
            is_new=self.is_new,
        )
        self.send(to, hello)

    def send(self, to: PeerId, message: Message) -> None:
        """Send without waiting for the disk: nothing in `message` depends on it."""
        assert to != self.own_id, message
        self.messages.append(Outgoing(to, message))

    def send_persisted(self, to: PeerId, message: Message) -> None:
        """Send once everything up to now is durable."""
        assert to != self.own_id, message
        self.messages_persisted.append(Outgoing(to, message))

    def enter_term(self, term: Term) -> None:
        """Go to a later term, without a vote or a leader yet; the current term changes nothing."""
        invariant(term >= self.term, "terms never fall", term=term, current=self.term)
        if term > self.term:
            self.term = term
            self.voted_for = NO_PEER
            self.leader_id = NO_PEER

    def note_leader(self, leader_id: PeerId) -> None:
        """Note a sign of life of the leader of the current term."""
        self.leader_id = leader_id
        self.promised_until_tick = self.ticks + self.config.election_ticks_min
        self.hurries_left = 0

    def note_leader_lost(self) -> None:
        """Note that the leader is most likely dead: voting is free again, elections are quick."""
        self.leader_id = NO_PEER
        self.promised_until_tick = self.ticks
        self.hurries_left = HURRIED_CAMPAIGNS_MAX

    def follower_wait_ticks(self) -> int:
        """Draw how long to wait for a leader before a campaign."""
        if self.hurries_left:
            self.hurries_left -= 1
            return 1 + self.random_below(self.config.lost_leader_ticks_max)
        return self._election_ticks()

    def candidate_wait_ticks(self) -> int:
        """Draw how long to wait for votes: even in a hurry a few round trips and a sync."""
        if self.hurries_left:
            self.hurries_left -= 1
            shortest = self.config.lost_leader_ticks_max
            return shortest + self.random_below(shortest)
        return self._election_ticks()

    def _election_ticks(self) -> int:
        low, high = self.config.election_ticks_min, self.config.election_ticks_max
        return low + self.random_below(high - low)
