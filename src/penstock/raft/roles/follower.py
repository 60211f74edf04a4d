"""Followers and learners: they take what the leader sends.

A follower that hears no leader for its election timeout campaigns. A learner has no vote and never
campaigns; it announces itself to every voter now and then, so that the next leader sends it entries
at once.

An answer to entries is sent only once they are durable. A heartbeat is answered at once, with what
was durable before, so that a slow disk does not make a live follower look dead.

Source: Raft paper 5.2, 5.3 (consistency check, conflict hints), 7; the hints are those of etcd.
"""

from itertools import pairwise

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import NO_INDEX, NO_TERM, RaftIndex
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    Message,
    TimeoutNow,
)
from penstock.raft.ready import NO_PEER, Role
from penstock.raft.roles.snapshot_receiver import SnapshotReceiver


class Follower:
    """A member that follows a leader, or waits for one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._silent_ticks = 0
        self._wait_ticks = core.follower_wait_ticks()
        self._hello_ticks = 0
        self._receiver = SnapshotReceiver(core)

    @property
    def kind(self) -> Role:
        """The role's name."""
        return Role.FOLLOWER if self._core.may_campaign else Role.LEARNER

    def tick(self) -> None:
        """Campaign or say hello if it is time."""
        core = self._core
        self._silent_ticks += 1
        if core.may_campaign:
            # A single voter need not wait for others. But it does not disturb a leader that it has
            # heard: a leader that removes itself may leave a single voter, and steps down itself.
            is_alone = not core.other_voters and core.ticks >= core.promised_until_tick
            if is_alone or self._silent_ticks >= self._wait_ticks:
                core.transitions.campaign()
            return
        if self._silent_ticks >= core.config.election_ticks_max:
            core.leader_id = NO_PEER
        self._hello_ticks -= 1
        if self._hello_ticks <= 0:
            self._say_hello()
        core.founding.tick()

    def step(self, message: Message) -> None:
        """Take a message of the current term."""
        match message:
            case AppendEntries():
                self._heard(message.sender)
                self._on_append(message)
            case InstallSnapshot():
                self._heard(message.sender)
                self._receiver.on_chunk(message)
            case TimeoutNow():
                # Straight to the vote: the leader itself asks for it (thesis 3.10).
                if self._core.may_campaign:
                    self._core.transitions.stand(is_transfer=True)
            case _:
                pass

    def leader_lost(self) -> None:
        """Campaign soon, or look for the next leader: the old one's connection was closed."""
        core = self._core
        core.note_leader_lost()
        self._silent_ticks = 0
        self._wait_ticks = core.follower_wait_ticks()
        self._hello_ticks = 0

    def voted(self) -> None:
        """Give the candidate that got our vote the time to win."""
        self._silent_ticks = 0

    def _heard(self, leader_id: PeerId) -> None:
        core = self._core
        if core.hurries_left:
            core.hurries_left = 0
            self._wait_ticks = core.follower_wait_ticks()
        core.note_leader(leader_id)
        self._silent_ticks = 0

    def _on_append(self, message: AppendEntries) -> None:
        check_entries(message)
        log = self._core.log
        last_index = RaftIndex(message.previous_index + len(message.entries))
        if message.previous_index < log.commit_index:
            # Committed entries are equal; the rest of the message may be outdated.
            self._accept(message, log.commit_index)
        elif log.term(message.previous_index) == message.previous_term:
            log.merge(message.entries)
            log.commit_to(min(message.commit_index, last_index))
            self._accept(message, last_index)
        else:
            self._reject(message)

    def _accept(self, message: AppendEntries, match_index: RaftIndex) -> None:
        core = self._core
        if message.entries:
            core.send_persisted(message.sender, self._success(message, match_index))
        else:
            known = min(match_index, core.log.stable_index)
            core.send(message.sender, self._success(message, known))

    def _success(self, message: AppendEntries, match_index: RaftIndex) -> AppendResponse:
        return AppendResponse(
            sender=self._core.own_id,
            term=self._core.term,
            round=message.round,
            is_success=True,
            match_index=match_index,
            rejected_index=NO_INDEX,
            hint_index=NO_INDEX,
            hint_term=NO_TERM,
            directory_id=self._core.own_directory,
        )

    def _reject(self, message: AppendEntries) -> None:
        core = self._core
        hint = core.log.last_not_after(message.previous_index, message.previous_term)
        response = AppendResponse(
            sender=core.own_id,
            term=core.term,
            round=message.round,
            is_success=False,
            match_index=NO_INDEX,
            rejected_index=message.previous_index,
            hint_index=hint,
            hint_term=core.log.term(hint) or NO_TERM,
            directory_id=core.own_directory,
        )
        core.send(message.sender, response)

    def _say_hello(self) -> None:
        config, is_led = self._core.config, self._core.leader_id != NO_PEER
        # A learner without a leader says hello as often as a leader would send heartbeats.
        self._hello_ticks = config.learner_hello_ticks if is_led else config.heartbeat_ticks
        for voter in self._core.known_voters:
            self._core.say_hello(voter)


def check_entries(message: AppendEntries) -> None:
    """Raise InvalidMessage for entries that no leader of this term can have sent."""
    entries = message.entries
    indexes = [message.previous_index, *(entry.index for entry in entries)]
    terms = [message.previous_term, *(entry.term for entry in entries), message.term]
    if message.previous_index < 0 or any(b != a + 1 for a, b in pairwise(indexes)):
        raise InvalidMessage(f"entries from {message.sender} do not follow each other")
    if any(b < a for a, b in pairwise(terms)):
        raise InvalidMessage(f"entries from {message.sender} have terms that go down")
    for entry in entries:
        _check_configuration(entry)


def _check_configuration(entry: Entry) -> None:
    if entry.kind is EntryKind.CONFIGURATION:
        Configuration.decode(entry.payload)
