"""The events that clients and observers record for the judge: one small tuple each.

Real and simulated runs record the same events. Times are nanoseconds of one monotonic clock
(virtual in a simulation). Fields beyond the first ones have defaults that mean *not observed*: a
check without its facts reports nothing.

Transactions are not covered.
"""

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

Partition = str | int
Value = str | int | bytes
Content = tuple[int, int | bytes]
"""(timestamp in ms, digest of key, value and headers) of one record."""

NO_MASTER = -1
NOTHING_COMMITTED = -1


class Outcome(Enum):
    """What the client knows of a request when the history ends."""

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Send(NamedTuple):
    """One record handed to one producer. Its value is sent once, ever, in its partition."""

    producer: str
    partition: Partition
    value: Value
    start_ns: int
    end_ns: int | None
    outcome: Outcome
    offset: int | None
    """The offset in the broker's answer; None if it had none."""
    key: Value | None = None
    """Set when all records of this key must stay in one partition, in the order of sending."""
    batch: Value | None = None
    """Name of the batch that it was written with; batches are there as a whole or not at all.
    The sends of one batch follow each other in the list of sends, in the order of the records."""
    producer_epoch: int | None = None
    """With the producer's name: once a newer one has written, the older may write no more."""
    content: Content | None = None


class Poll(NamedTuple):
    """Records that one consumer got at once, in the order in which it got them; maybe none.

    Answers without records are wanted too: they show that a consumer is stuck.
    """

    consumer: str
    partition: Partition
    records: Sequence[tuple[int, Value]]
    """(offset, value), in the order of delivery."""
    start_ns: int
    end_ns: int
    is_fresh: bool = False
    """The consumer was placed anew (seek, assignment): going back or jumping is no anomaly."""
    end_offset: int | None = None
    """Where the log ends (exclusive), as the broker that answered said; None when unknown."""
    start_offset: int | None = None
    """The first offset that is kept, as the broker that answered said; None when unknown."""
    contents: Sequence[Content] = ()
    """The contents of `records`; empty if they were not observed."""
    is_elsewhere: bool = False
    """The broker said that another one leads, and the consumer stays; or the consumer was away: it
    waits for nothing yet."""
    told_by: str = ""
    """Which broker answered, where that is known."""


class Commit(NamedTuple):
    """A group's position in a partition: committed by a member, or fetched by one."""

    group: str
    partition: Partition
    offset: int
    """The next to be read; NOTHING_COMMITTED when a fetch found none."""
    start_ns: int
    end_ns: int | None
    outcome: Outcome = Outcome.ACKED
    is_fetched: bool = False
    is_rewind: bool = False
    """The group wanted to go back: a lower position is no anomaly from then on."""
    owner: str = ""
    member_id: str = ""
    generation: int = -1
    """Generation of the committing member; -1: not observed, or a commit from outside the group."""
    told_by: str = ""
    """The broker that a position was fetched from."""


class Owned(NamedTuple):
    """What a member of a group was given in a generation."""

    group: str
    generation: int
    owner: str
    """The instance of a static member, else the member id."""
    member_id: str
    partitions: Sequence[Partition]
    at_ns: int
    is_by_epoch: bool = False
    """Whether the coordinator assigns, and `generation` is the member's epoch (KIP-848)."""
    is_gone: bool = False
    """The member owns nothing any more, or may not: what it was given counts no longer. A group
    that becomes one of another kind while it is empty begins with the first generation again."""


class Deletion(NamedTuple):
    """A client's request to delete the records below an offset (DeleteRecords)."""

    partition: Partition
    before_offset: int
    """Where the log begins at least (inclusive), whoever leads. The answer may tell more: what the
    master's retention has deleted."""
    end_ns: int


class MastershipSeen(NamedTuple):
    """A statement about the master: a metadata answer, or the state inside a process."""

    observer: str
    replica_set: Partition
    leader_epoch: int
    master: int
    """Broker id, or NO_MASTER."""
    at_ns: int
    sync_state_set: Sequence[int] | None = None


class ReplicaEntry(NamedTuple):
    """One entry of one replica's log: a batch, or any stretch that all replicas cut alike."""

    position: int
    """Where it begins; bytes or an offset, the same for every replica."""
    end_position: int
    """Exclusive."""
    leader_epoch: int
    digest: int | bytes


class ReplicaLog(NamedTuple):
    """What one member of a replica set holds when everything has come to rest."""

    replica: int
    replica_set: Partition
    entries: Sequence[ReplicaEntry]
    confirm_position: int
    """As this member knows it, exclusive."""
    is_in_sync: bool = True
    """Member of the sync-state set."""
    start_position: int = 0
    """What lies before it was deleted by retention, inclusive bound."""


class History(NamedTuple):
    """Everything that was noted in one run."""

    sends: Sequence[Send] = ()
    polls: Sequence[Poll] = ()
    commits: Sequence[Commit] = ()
    masterships: Sequence[MastershipSeen] = ()
    replicas: Sequence[ReplicaLog] = ()
    deletions: Sequence[Deletion] = ()
    """Those that were answered without an error."""
    owned: Sequence[Owned] = ()


class Rules(NamedTuple):
    """What the run promised."""

    final_reader: str | None = None
    """The consumer that in the end read all that is there; None: nothing is said about it."""
    stale_ns_max: int = 0
    """An answer may lack what was known up to so long before it was asked for: the time after
    which a cut-off master has to know that it may be none any more."""
    lag_ns_max: int | None = None
    """A consumer gets what is acknowledged within so long, while it polls; None: not looked at."""
    rejoin_ns_max: int = 0
    """So much longer for `readers`: who had the partition before has to be given up first."""
    lag_from_ns: int = 0
    """Time before this counts for no lag: something was broken on purpose."""
    positions_kept_ns: int | None = None
    """A group without members and commits keeps its positions for so long; None: for ever."""
    woken: Sequence[tuple[str, int, int]] = ()
    """(broker, from, to): it had stood still, and no clock of its own has told it yet; until then
    it may answer from memory what is old (ADR 0026)."""
    readers: Sequence[tuple[str, Collection[str]]] = ()
    """(group, its consumers): those that in the end have read everything between them."""

    def may_be_old(self, told_by: str, start_ns: int, end_ns: int) -> bool:
        """Whether this broker may have answered from what it knew before it stood still."""
        return any(
            broker == told_by and start_ns <= to_ns and end_ns >= from_ns
            for broker, from_ns, to_ns in self.woken
        )

    def somebodys_may_be_old(self, start_ns: int, end_ns: int) -> bool:
        """Whether some broker may have answered so; who asks may have been answered through one."""
        return any(self.may_be_old(broker, start_ns, end_ns) for broker, *_ in self.woken)
