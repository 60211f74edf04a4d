"""How a group comes into being: once, out of empty directories, with the word of all of them.

    every first voter, its directory empty     says hello to all the others: "I am new"
    the one of them with the lowest id         has heard that from each of the others just now:
                                               entry 1 is the configuration, with all directory ids
    the others                                 vote for it, and get the entry like any other

The first voters stand in the settings of each process. A directory that is empty because its disk
was lost is not told from one that never was anything by looking at it. It is by the others: as long
as one of them has a log, or a voter answers, there is a group, and who is empty follows as a
learner. So nobody is founded beside a group while one of its first voters has not lost its disk.

The word of all is needed, not of a majority: who did not speak may be the one with the log.

Source: ours. KIP-853 has an operator format the first voters (--initial-controllers) instead; etcd
asks the peers whether the member was bootstrapped. ADR 0027.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.log import RaftLog
from penstock.raft.messages import LearnerHello


class Campaigner(Protocol):
    """Changes of role, as far as a group's first configuration brings one."""

    def campaign(self) -> None: ...


class Newcomer(Protocol):
    """The member that may found a group (`raft/core.py`)."""

    own_id: int
    own_directory: str
    config: RaftConfig
    log: RaftLog
    term: int
    ticks: int

    @property
    def turns(self) -> Campaigner: ...

    @property
    def is_new(self) -> bool: ...

    def enter_term(self, term: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a member brings with it, besides its log."""

    directory_id: str = ""
    """Of the directory with its log and its votes; "" for one from before there were ids."""
    first_voters: tuple[tuple[int, str], ...] = ()
    """Who founds the group, if there is none: (peer id, address)."""


class Founding:
    """What one member knows of who is new."""

    def __init__(self, core: Newcomer, first_voters: tuple[tuple[int, str], ...]) -> None:
        self._core = core
        self._first_voters = dict(first_voters)
        self._heard: dict[int, tuple[str, int]] = {}
        """Peer id -> (directory id, tick) of the last word of one that is new."""
        self._is_over = False

    @property
    def _is_ours(self) -> bool:
        first = self._first_voters
        return (
            not self._is_over and self._core.is_new and min(first, default=-1) == self._core.own_id
        )

    def note_hello(self, hello: LearnerHello) -> None:
        """Take the word of a first voter; one that has a log has a group."""
        if hello.sender not in self._first_voters:
            return
        if hello.is_new:
            self._heard[hello.sender] = (hello.directory_id, self._core.ticks)
        else:
            self.give_up()

    def give_up(self) -> None:
        """There is a group: it is for its leader to say who votes."""
        self._is_over = True

    def tick(self) -> None:
        """Found the group if every word is fresh; the term is later than any of theirs."""
        if not self._is_ours or self.missing:
            return
        core = self._core
        directories = {peer_id: self._heard[peer_id][0] for peer_id in self._others}
        directories[core.own_id] = core.own_directory
        configuration = Configuration.of(self._first_voters, directories)
        core.enter_term(core.term + 1)
        entry = Entry(
            index=1, term=core.term, kind=EntryKind.CONFIGURATION, payload=configuration.encode()
        )
        core.log.append([entry])
        core.turns.campaign()

    @property
    def _others(self) -> tuple[int, ...]:
        return tuple(p for p in self._first_voters if p != self._core.own_id)

    @property
    def missing(self) -> tuple[int, ...]:
        """The first voters that did not say lately that they are new."""
        oldest = self._core.ticks - self._core.config.election_ticks_max
        heard: Mapping[int, tuple[str, int]] = self._heard
        return tuple(p for p in self._others if p not in heard or heard[p][1] < oldest)
