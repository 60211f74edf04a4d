"""Results of the client: small immutable objects without behaviour.

End offsets are exclusive, start offsets inclusive; times are ms since 1970.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A broker and the address at which clients reach it."""

    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition; `leader` is -1 while there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic; partition n is `partitions[n]`. `topic_id` is None with old brokers."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Brokers by id, and topics by name."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerView, ...]
    topics: dict[str, TopicView]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting of a topic or broker. `value` is None when it is secret or not set."""

    name: str
    value: str | None
    source: str
    """Where the value comes from: topic, broker, cluster, settings, default or other."""
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as in a list; `state` and `group_type` are empty with old brokers."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member and its assigned partitions; none if its assignment could not be decoded."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[tuple[str, int], ...]
    tasks: tuple[str, ...] = ()
    """Its tasks in a streams group, such as "active 0_2"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group. `state` is Kafka's: Empty, Stable, PreparingRebalance, ..., Dead if unknown.

    `group_type` is "classic", or "consumer" (KIP-848), "share" (KIP-932) or "streams" (KIP-1071)
    where the coordinator assigns; `protocol` is the assignor.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    group_type: str
    members: tuple[GroupMember, ...]
    topology_epoch: int | None = None
    """The epoch of the topology of a streams group (KIP-1071)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndTime:
    """Result of a search by time; both are -1 if no record is that late."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A group's committed offset: the next one that it reads."""

    offset: int
    leader_epoch: int
    metadata: str


DELIVERIES_TOLD = 10
"""Counts of deliveries that a broker tells apart; the last one is this or more."""


class SharePosition(NamedTuple):
    """Where the share of a group in a partition is."""

    start: int
    """Everything below it is over."""
    lag: int | None
    """Records that are not over; None if that is not known."""
    in_flight: int | None = None
    """Records that members hold now; None if the broker does not tell."""
    delivered: tuple[int, ...] = ()
    """Entry i: records that are not over and were handed out i + 1 times; the tenth, or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id as lists tell it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    """Id of the broker that coordinates it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in a partition, as its leader knows it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    """Offset of its first record (inclusive)."""
    last_append_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionView:
    """A transactional id; `start_ms` is -1 before its first transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[tuple[str, int], ...]
    """(topic, partition) of the open transaction."""
