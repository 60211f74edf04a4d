"""How a group is founded: once, when all first voters say that their directories are empty.

    each first voter with an empty directory   says hello to all others, with `is_new`
    the first voter with the lowest id         once it has heard this from all others lately, it
                                               appends entry 1: the configuration, with all
                                               directory ids
    the others                                 vote for it, and get the entry like any other

The first voters are named in the settings of each process. An empty directory does not show whether
its disk was lost or it was never used. The other members do: as long as one of them has a log, or a
voter answers, there is a group, and a member with an empty directory joins it as a learner. So no
second group is founded while one of the first voters still has its disk.

All must answer, a majority is not enough: the one that is silent may be the one with the log.

Source: ours. KIP-853 has an operator format the first voters (--initial-controllers) instead; etcd
asks the peers whether the member was bootstrapped. ADR 0027.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.base.ids import PeerId
from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration, Peers
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import NO_DIRECTORY, DirectoryId, RaftIndex, Term
from penstock.raft.log import RaftLog
from penstock.raft.messages import LearnerHello


class Campaigner(Protocol):
    """The change of role that follows a group's first configuration."""

    def campaign(self) -> None: ...


class Newcomer(Protocol):
    """The member that may found a group (`raft/core.py`)."""

    own_id: PeerId
    own_directory: DirectoryId
    config: RaftConfig
    log: RaftLog
    term: Term
    ticks: int

    @property
    def transitions(self) -> Campaigner: ...

    @property
    def is_new(self) -> bool: ...

    def enter_term(self, term: Term) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a member brings with it, besides its log."""

    directory_id: DirectoryId = NO_DIRECTORY
    """Id of the directory with its log and its votes; "" for one older than directory ids."""
    first_voters: Peers = ()
    """The members that found the group if there is none: (peer id, address)."""


class Founding:
    """Which first voters one member knows to be new."""

    def __init__(self, core: Newcomer, first_voters: Peers) -> None:
        self._core = core
        self._first_voters = dict(first_voters)
        self._heard: dict[PeerId, tuple[DirectoryId, int]] = {}
        """Peer id -> (directory id, tick) of its last hello with `is_new`."""
        self._is_over = False

    @property
    def _is_ours(self) -> bool:
        first = self._first_voters
        return (
            not self._is_over and self._core.is_new and min(first, default=-1) == self._core.own_id
        )

    def note_hello(self, hello: LearnerHello) -> None:
        """Take the hello of a first voter; if it has a log, there is a group already."""
        if hello.sender not in self._first_voters:
            return
        if hello.is_new:
            self._heard[hello.sender] = (hello.directory_id, self._core.ticks)
        else:
            self.give_up()

    def give_up(self) -> None:
        """Found no group: there is one, and its leader decides who votes."""
        self._is_over = True

    def tick(self) -> None:
        """Found the group if all others have said lately that they are new."""
        if not self._is_ours or self.missing:
            return
        core = self._core
        directories = {peer_id: self._heard[peer_id][0] for peer_id in self._others}
        directories[core.own_id] = core.own_directory
        configuration = Configuration.of(self._first_voters, directories)
        core.enter_term(Term(core.term + 1))
        entry = Entry(
            index=RaftIndex(1),
            term=core.term,
            kind=EntryKind.CONFIGURATION,
            payload=configuration.encode(),
        )
        core.log.append([entry])
        core.transitions.campaign()

    @property
    def _others(self) -> tuple[PeerId, ...]:
        return tuple(p for p in self._first_voters if p != self._core.own_id)

    @property
    def missing(self) -> tuple[PeerId, ...]:
        """Other first voters that have not said within election_ticks_max that they are new."""
        oldest = self._core.ticks - self._core.config.election_ticks_max
        heard: Mapping[PeerId, tuple[str, int]] = self._heard
        return tuple(p for p in self._others if p not in heard or heard[p][1] < oldest)
