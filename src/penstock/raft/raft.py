"""One member of a Raft group. It knows no disk, no network and no clock.

The driver's duties, for each Ready in the order in which `ready()` gave them:

1. Send `messages`. They need not wait for anything.
2. Persist `snapshot`, then `entries` (which replace everything from their first index on), then
   `hard_state`; all durable if `must_sync`. A snapshot replaces the whole log.
3. Send `messages_persisted`.
4. Give `snapshot` to the state machine, apply `committed`, answer `reads`, tell `leadership`.
5. Call `advance(ready)`.

`tick`, `step`, `propose` and `ready` may be called again while a Ready is being persisted: heartbeats
go on during a slow sync. Then 2, 3 and 5 must be done in order, and several Readys may share one
sync. After each call that may have changed something, ask `ready()` until it returns None.

A member whose own id is not among the voters of its configuration is a learner: it announces
itself to the voters, is fed by the leader, and never votes or counts. So a process that wants to
become a voter starts with the configuration of those that exist.

Source: Raft paper and Raft thesis; the sections stand with the rules. In the manner of etcd's raft.
"""

from collections.abc import Callable, Sequence

from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.messages import Message
from penstock.raft.ready import (
    HardState,
    Leadership,
    PeerProgress,
    Ready,
    Role,
    Snapshot,
)


class Raft:
    """One member. All calls come from one thread, none blocks."""

    def __init__(  # noqa: PLR0913 - what survived the last run, one by one
        self,
        *,
        own_id: int,
        config: RaftConfig,
        random_below: Callable[[int], int],
        hard_state: HardState,
        snapshot: Snapshot,
        entries: Sequence[Entry] = (),
    ) -> None:
        """Start from what is durable; a first start has Snapshot(configuration=the voters).

        `random_below(n)` returns 0 to n - 1. Entries up to the snapshot are left out. The state
        machine must hold the snapshot already; committed entries behind it come by `ready()`.

        Raises CorruptRaftState if the parts contradict each other.
        """
        raise NotImplementedError

    def tick(self) -> None:
        """Let one tick of time pass."""
        raise NotImplementedError

    def step(self, message: Message) -> None:
        """Take a message. Raises InvalidMessage if no correct peer can have sent it."""
        raise NotImplementedError

    def propose(self, payload: bytes) -> int:
        """Append `payload`; return the index that it has if it is ever committed in this term.

        Raises ProposalDropped, ProposalQueueFull or ProposalTooLarge.
        """
        raise NotImplementedError

    def add_voter(self, peer_id: int, address: str) -> int:
        """Make a learner that is caught up a voter, or change a voter's address.

        Returns the index of the configuration entry. Raises ChangeRefused or ProposalDropped.
        """
        raise NotImplementedError

    def remove_voter(self, peer_id: int) -> int:
        """Make a voter a learner; a leader that removes itself steps down after the commit.

        Returns the index of the configuration entry. Raises ChangeRefused or ProposalDropped.
        """
        raise NotImplementedError

    def transfer(self, to: int) -> None:
        """Hand leadership to `to`; given up after election_ticks_min.

        Until then proposals are dropped. Raises TransferRefused or ProposalDropped.
        """
        raise NotImplementedError

    def read_index(self, context: int) -> None:
        """Ask for a linearizable read; answered by a ReadState with the same `context`.

        Raises ReadRefused.
        """
        raise NotImplementedError

    def is_lease_valid(self) -> bool:
        """Whether nobody else can be leader now (only with config.lease_reads)."""
        raise NotImplementedError

    def peer_lost(self, peer_id: int) -> None:
        """Note that the connection to this peer was closed: it is probably dead."""
        raise NotImplementedError

    def ready(self) -> Ready | None:
        """Return what is to be done now, or None."""
        raise NotImplementedError

    def advance(self, ready: Ready) -> None:
        """Note that everything in `ready` is done."""
        raise NotImplementedError

    def compact(self, index: int, data: bytes) -> Snapshot:
        """Take `data` as the state after entry `index` (applied) and forget entries up to it.

        Returns the snapshot for the driver to keep. It must be durable before the driver drops
        entries from disk. Some entries stay in memory for peers that are a little late.
        """
        raise NotImplementedError

    @property
    def role(self) -> Role:
        """What this member is."""
        raise NotImplementedError

    @property
    def term(self) -> int:
        """The current term."""
        raise NotImplementedError

    @property
    def leadership(self) -> Leadership:
        """Who leads, with whether this member leads and is up to date."""
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        """The leader of the current term, NO_PEER if not known."""
        raise NotImplementedError

    @property
    def commit_index(self) -> int:
        """Last index known to be committed, inclusive."""
        raise NotImplementedError

    @property
    def applied_index(self) -> int:
        """Last index that the driver applied, inclusive."""
        raise NotImplementedError

    @property
    def last_index(self) -> int:
        """Last index in the log."""
        raise NotImplementedError

    @property
    def configuration(self) -> Configuration:
        """The voters, as the log has them now."""
        raise NotImplementedError

    @property
    def peers_to_dial(self) -> tuple[tuple[int, str], ...]:
        """Voters other than this member with their addresses, from the log and from hearsay."""
        raise NotImplementedError

    @property
    def progress(self) -> tuple[PeerProgress, ...]:
        """On a leader what it knows of its peers, else nothing."""
        raise NotImplementedError
