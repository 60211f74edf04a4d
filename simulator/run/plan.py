"""A plan: the shape of a cluster and its faults with their times, as plain data.

    seed ──► planning.py ──► Plan ──► one_run.py    the same plan gives the same run
                              │ ▲
                              ▼ │ JSON              printed, edited, shrunk, kept as a test

A fault names hosts, or roles that are resolved when it begins: `master:0` is the master of the
first replica set, `slave:0` one of its slaves, `slaves:0` all of them, `active` the active
controller, `*` every server. Times are milliseconds of virtual time since the first fault could
begin.

Faults are injected by faults/doing.py.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from penstock.base.errors import ConfigError

FORMAT_VERSION = 1
REWRITE_BYTES = 16 << 20
"""More than any run reaches."""
OFF = "off"


class FaultKind(StrEnum):
    """What can be done to a cluster; the text is the name in plans and reports."""

    KILL = "kill"
    """kill -9 of `targets`; started again when it is over."""
    POWER_OFF = "power-off"
    """`targets` lose power: what was not synced is lost or torn, and nobody is told."""
    PAUSE = "pause"
    """SIGSTOP, then SIGCONT."""
    PARTITION = "partition"
    """Nothing passes between `targets` and `others`. A host in neither sees both: a bridge."""
    ONE_WAY = "one-way"
    """What `targets` send does not reach `others`."""
    RING = "ring"
    """Each of `targets` hears itself and those after it, up to a majority; no two the same."""
    LOSS = "loss"
    """`amount` percent of the packets between `targets` and `others` are lost."""
    LATENCY = "latency"
    """Packets between `targets` and `others` take `amount` milliseconds and up to half more."""
    RESETS = "resets"
    """All connections between `targets` and `others` are reset, again and again."""
    SLOW_SYNC = "slow-sync"
    """A sync on `targets` takes `amount` milliseconds."""
    LYING_SYNC = "lying-sync"
    """Syncs on `targets` do nothing and say that they worked; then the host loses power."""
    SYNC_ERROR = "sync-error"
    """The next sync on `targets` fails with EIO; the process is started again when it is over."""
    DISK_FULL = "disk-full"
    """`targets` have no space left."""
    BIT_FLIP = "bit-flip"
    """One bit of a file of `targets` turns over, while the process is down."""
    DISK_LOST = "disk-lost"
    """`targets` get a new disk in the place of that with the logs of sets."""
    WRITE_ERROR = "write-error"
    """A write on `targets` fails with EIO, after `amount` others; as with sync-error afterwards."""
    READ_ERROR = "read-error"
    """Nothing is in the page cache of `targets`, and some reads fail with EIO."""
    FULL_AT = "full-at"
    """`targets` have no space for one purpose, the one of number `amount`: see disk_faults.py."""
    STOP = "stop"
    """SIGTERM for `targets`; started again when it is over."""
    SUSPEND = "suspend"
    """`targets` stand still with their monotonic clock, as a paused machine does."""
    CLOCK_STEP = "clock-step"
    """The wall clock of `targets` is `amount` ms ahead (behind: negative) for that time."""
    VOTER_WIPED = "voter-wiped"
    """A controller of `targets` gets an empty disk in place of its own, and is started again."""
    METADATA_DISK = "metadata-disk"
    """An operation on the metadata log of `targets` fails, by `amount` (voter_faults.REFUSALS)."""
    CHANGE_VOTERS = "change-voters"
    """An operator takes the vote of the first of `targets` away, and gives it back at the end."""
    TRANSFER = "transfer"
    """An operator hands the mastership of set number `amount` over."""
    ELECT = "elect"
    """An operator asks for an election in set number `amount`."""
    POLICY = "policy"
    """An operator changes the policy of set number `amount`, and back when it is over."""
    REPLACE = "replace"
    """An operator takes a slave out of set number `amount`, and in again when it is over."""
    DRAIN = "drain"
    """An operator drains a broker, and ends that when it is over."""
    DOWNGRADE = "downgrade"
    """A coordinator writes what only a later version can read (by `amount`: newer_records.py), and
    ends; started again, as ours, when it is over."""
    GARBLE = "garble"
    """Replication links of `targets` change or repeat some of what they carry."""
    STALE_WORDS = "stale-words"
    """Links of `targets` say whole frames that are late or contradict: see stale_words.py."""
    STORE = "store"
    """The way of `targets` to the object store is slow or fails, by `amount` (store_faults.py)."""
    OBJECT_FLIP = "object-flip"
    """One bit of an object in the store turns over, and back when it is over."""
    GIVE_UP = "give-up"
    """An operator has the history's topic copied no more, and gives up what the object store has;
    it is copied again when it is over."""
    NO_COPIES = "no-copies"
    """An operator has nothing new of the history's topic copied until it is over."""
    STATUS = "status"
    """An operator asks how the cluster is."""
    SETTING = "setting"
    """An operator changes a setting of the cluster (by `amount`), and back when it is over."""
    MISUSE = "misuse"
    """An operator asks for what can not be; all of it is refused."""
    SPREAD = "spread"
    """An operator has masterships moved until brokers lead about the same."""
    TRIAL = "trial"
    """An operator asks what would become of settings and names of topics, and for what is there."""
    LEVEL = "level"
    """An operator takes the level of the metadata back, and up again when it is over."""


OPERATIONS = (
    FaultKind.CHANGE_VOTERS,
    FaultKind.TRANSFER,
    FaultKind.ELECT,
    FaultKind.POLICY,
    FaultKind.REPLACE,
    FaultKind.DRAIN,
    FaultKind.STATUS,
    FaultKind.SETTING,
    FaultKind.MISUSE,
    FaultKind.SPREAD,
    FaultKind.TRIAL,
    FaultKind.LEVEL,
    FaultKind.GIVE_UP,
    FaultKind.NO_COPIES,
)
"""What an operator asks for. They are in plans, and are not counted as faults."""

DAMAGE = (FaultKind.LYING_SYNC, FaultKind.BIT_FLIP)
"""What a disk holds is no longer what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: begins at `at_ms`, ends `lasting_ms` later. See FaultKind for the other fields."""

    kind: FaultKind
    at_ms: int
    lasting_ms: int
    targets: tuple[str, ...]
    others: tuple[str, ...] = ()
    amount: int = 0

    @property
    def end_ms(self) -> int:
        """When it is over."""
        return self.at_ms + self.lasting_ms

    def __str__(self) -> str:
        sides = ",".join(self.targets) + (f" | {','.join(self.others)}" if self.others else "")
        amount = f" {self.amount}" if self.amount else ""
        return f"{self.at_ms:>6} ms {self.kind}{amount} {sides} for {self.lasting_ms} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the cluster is made of, and what writes to it."""

    is_apart: bool = False
    """Three brokers and three controllers, rather than three nodes that are both."""
    replication_factor: int = 3
    policy: str = "all"
    """Acknowledgement policy of the sets; a PolicyKind."""
    required: int = 2
    """Copies that the policies `adaptive` and `k-of-n` wait for."""
    min_insync_replicas: int = 1
    partitions: int = 3
    producers: int = 2
    pipeline: int = 2
    """Batches of one producer and partition under way at a time."""
    stock_clients: bool = False
    """Whether an aiokafka producer and consumer take part as well."""
    segment_bytes: int = 65_536
    snapshot_after_bytes: int = 16_384
    """Entries of the metadata log that make a new snapshot worth its cost."""
    preferred_master_delay_ms: int = -1
    records_per_second: int = 60
    """Of each producer and partition, at most."""
    retention_bytes: int = -1
    """Of the history's topic; -1 keeps everything. Some of its records are deleted as well."""
    is_churning: bool = False
    """Whether other topics come and go beside the history's, see churn.py."""
    groups: int = 0
    """Consumer groups that read the history's topic, see groups.py."""
    group_members: int = 2
    group_rewrite_bytes: int = REWRITE_BYTES
    """Growth that makes a partition of the internal topic worth a rewrite."""
    group_kept_ms: int = -1
    """A group without members and commits keeps its positions for so long; -1: for ever."""
    transactors: int = 0
    """Transactional ids that write to a topic of their own, see transactions.py."""
    movers: int = 0
    """Groups whose positions are committed with what they write, see movers.py."""
    sharers: int = 0
    """Members of a share group, see shares/sharers.py."""
    streams: int = 0
    """Processes of an application of Kafka Streams, see streams/application.py."""
    has_mixed_groups: bool = False
    """Whether a member of each group has the coordinator assign, and others may not (groups.py)."""
    is_inspected: bool = False
    """Whether an administrator reads all that there is to read, see administrators/inspector.py."""
    slave_reads: str = OFF
    """`broker.slave_reads`: which consumers are sent to slaves; see slave_reader.py."""
    copy_bytes_per_second: int = 0
    """`replication.copy_bytes_per_second`, of copies to members out of step; 0: no bound."""
    is_flushed_later: bool = False
    """`log.flush_policy = "async"`: what a loss of power takes was never promised."""
    level0_bytes: int = -1
    """`log.level0_bytes`: what is kept of older bytes goes to extent files, and a topic beside the
    history's is compacted, see keyed.py; -1: neither."""
    is_tiered: bool = False
    """Whether there is an object store, to which topics are copied; not without `level0_bytes`."""
    merge_bytes: int = 65_536
    """`tier.merge_bytes`, and the other two by which objects are merged."""
    merge_runs: int = 2
    merge_ms: int = 1_000
    local_retention_bytes: int = -1
    """`local.retention.bytes` of what is copied: the rest is in the object store alone; -1: nothing
    is."""
    housekeeper_death_share: float = 0.0
    """Of the jobs of housekeepers in which they die alone."""
    clock_drift_ppm: int = 0
    """Of the brokers, and of the controllers, one has a clock that goes faster by so many
    millionths, and another one has a slower one."""
    administrators: int = 0
    """So many change rules of access and users, see clients/access; 0: everybody may everything."""
    token_holders: int = 0
    """So many make delegation tokens and log in by them, where administrators are and wall clocks
    agree; see clients/access/token_holder.py."""
    limited: int = 0
    """So many clients set themselves quotas and take more, see clients/quotas/limited.py."""
    audited: int = 0
    """So many clients know what they did, which rows of the audit have to say as well; 0: brokers
    have no audit. See clients/audited."""
    pushers: int = 0
    """So many push metrics of themselves, see clients/pushers; 0: brokers take none."""
    trace_percent: float = 0.0
    """`broker.message_trace_percent`, see clients/shares/trace_reader.py; 0: nothing is traced."""
    remoting: int = 0
    """So many RocketMQ clients of each kind, see clients/remoting; 0: nodes have no such port."""
    grpc: int = 0
    """So many RocketMQ clients of each kind over gRPC, see clients/grpc; 0: likewise."""
    machines: int = 0
    """So many computers have all brokers between them, and racks of one each; 0: one each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a run depends on, besides the code."""

    seed: int
    """Of every random choice during the run: orders, delays, torn writes, client timing."""
    shape: Shape = field(default_factory=Shape)
    faults: tuple[Fault, ...] = ()
    settle_ms: int = 500
    """Between the first writes and the first fault."""

    @property
    def end_ms(self) -> int:
        """When the last fault is over; 0 without faults."""
        return max((fault.end_ms for fault in self.faults), default=0)

    def with_faults(self, faults: tuple[Fault, ...]) -> Self:
        """Return the same with other faults, in order of their time."""
        return replace(self, faults=tuple(sorted(faults, key=lambda one: one.at_ms)))

    def to_json(self) -> str:
        """Return the plan as text that `from_json` takes."""
        return json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a plan. Raises ConfigError with what is wrong."""
        try:
            fields = json.loads(text)
            version = fields.pop("format_version", FORMAT_VERSION)
            if version > FORMAT_VERSION:
                raise ConfigError(f"the plan has format {version}: install a newer Penstock")
            faults = tuple(_fault(one) for one in fields.pop("faults", ()))
            shape = Shape(**fields.pop("shape", {}))
            return cls(shape=shape, faults=faults, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"this is no fault plan: {error}") from error


def _fault(fields: Mapping[str, Any]) -> Fault:
    return Fault(
        kind=FaultKind(fields["kind"]),
        at_ms=int(fields["at_ms"]),
        lasting_ms=int(fields["lasting_ms"]),
        targets=tuple(fields["targets"]),
        others=tuple(fields.get("others", ())),
        amount=int(fields.get("amount", 0)),
    )
