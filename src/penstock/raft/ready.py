"""What the driver keeps for a member, and what a member asks its driver to do.

Source: etcd's raft (its doc.go: persist, send, apply, advance); Raft thesis 10.2.1 for which
messages may go before the write to disk is done.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import NO_DIRECTORY, NO_INDEX, NO_TERM, DirectoryId, RaftIndex, Term
from penstock.raft.messages import Message

NO_PEER = PeerId(-1)
"""In the place of a peer id: none, or none known."""


class Role(StrEnum):
    """What a member is at the moment."""

    LEARNER = "learner"
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardState:
    """What must survive a crash, besides snapshot and entries."""

    term: Term = NO_TERM
    voted_for: PeerId = NO_PEER
    commit_index: RaftIndex = NO_INDEX
    """Inclusive. Safety does not need it synced, but a learner that starts while no voter answers
    knows by it which of its entries are final. Never beyond the entries handed out before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state machine's state after entry `index`, with what Raft needs to go on from there."""

    index: RaftIndex = NO_INDEX
    term: Term = NO_TERM
    configuration: Configuration
    data: bytes = b""


class Outgoing(NamedTuple):
    """A message and the peer it is for."""

    to: PeerId
    message: Message


class ReadState(NamedTuple):
    """A read asked for with `context` may be answered once `read_index` is applied."""

    context: int
    read_index: RaftIndex


class Leadership(NamedTuple):
    """Who leads, as this member knows it."""

    leader_id: PeerId
    """NO_PEER while there is none or none is known."""
    term: Term
    is_leader: bool
    """This member leads, and has applied everything that earlier leaders committed."""


class PeerProgress(NamedTuple):
    """What a leader knows of one peer, for status output."""

    peer_id: PeerId
    is_voter: bool
    state: str
    match_index: RaftIndex
    """Everything up to it, inclusive, is durable there."""
    silent_ticks: int
    """Since its last answer."""
    directory_id: DirectoryId = NO_DIRECTORY
    """The directory that the peer runs with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Work for the driver. raft.py describes the order of its duties."""

    sequence: int
    """Counts the Readys of one process; they are persisted and advanced in this order."""
    messages: tuple[Outgoing, ...] = ()
    """May go at once, in parallel with the disk."""
    snapshot: Snapshot | None = None
    """Complete; replaces the whole log and the state machine's state."""
    entries: tuple[Entry, ...] = ()
    """To be written to disk; they replace everything there from entries[0].index on."""
    hard_state: HardState | None = None
    """None if it did not change."""
    must_sync: bool = False
    """Whether snapshot, entries and hard state must be durable before `messages_persisted` go. If
    only the commit index changed it need not be, and that change may be written at leisure."""
    messages_persisted: tuple[Outgoing, ...] = ()
    """May go only when everything above is durable."""
    committed: tuple[Entry, ...] = ()
    """To be applied, in this order. Only entries of kind NORMAL matter to the state machine. All
    of them are durable already."""
    reads: tuple[ReadState, ...] = ()
    leadership: Leadership | None = None
    """If it changed. Comes after `committed`. Reads and proposals that were not answered are void
    when this member is no longer the leader of the term in which they were asked for."""
