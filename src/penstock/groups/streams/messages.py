"""Requests of members of streams groups, and their answers, independent of wire versions.

Source: the fields of StreamsGroupHeartbeat 0 and StreamsGroupDescribe 0; KIP-1071.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.assignors.partitions import count_of
from penstock.base.ids import MemberEpoch, TopologyEpoch
from penstock.groups.assigned.messages import JOIN_EPOCH, HeartbeatReply
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.records import Endpoint, Pairs
from penstock.groups.streams.status import Status
from penstock.groups.streams.tasks import Tasks
from penstock.groups.streams.topology import InternalTopic, Topology
from penstock.protocol.error_codes import ErrorCode

UNCHANGED_MS = -1
TASK_BYTES = 40
"""Memory of a task that a member names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeat:
    """A member shows that it is alive, and says what has changed; None means unchanged."""

    group_id: str
    member_id: str
    member_epoch: MemberEpoch
    """The epoch the member is in; 0 joins, -1 leaves."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    topology: Topology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    tags: Pairs | None = None
    is_shutdown: bool = False
    """Whether all members are to end."""
    endpoint_epoch: int = 0
    """The state of the endpoints that the member knows."""
    client_id: str = ""
    client_host: str = ""

    @property
    def names(self) -> frozenset[str]:
        """As in Beat."""
        return frozenset((self.member_id,))

    @property
    def said_bytes(self) -> int:
        """As in Beat."""
        topology = 0 if self.topology is None else self.topology.size_bytes
        tags = sum(len(key) + len(value) for key, value in self.tags or ())
        return topology + tags + count_of(self.owned or {}) * TASK_BYTES

    def with_owned(self, owned: Tasks | None) -> "StreamsHeartbeat":
        """As in OwningBeat."""
        return replace(self, owned=owned)

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as after a lost connection: it wants everything."""
        return self.owned is not None and self.rebalance_timeout_ms != UNCHANGED_MS


class EndpointTasks(NamedTuple):
    """An endpoint, and the partitions by topic whose tasks its member has."""

    endpoint: Endpoint
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsReply(HeartbeatReply):
    """The answer to a heartbeat that was understood."""

    statuses: tuple[Status, ...] = ()
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointTasks, ...] | None = None
    """None where the member knows them already."""
    missing: tuple[InternalTopic, ...] = ()
    """Internal topics of the application that are to be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberDescription:
    """A member as administrators see it."""

    member_id: str
    member_epoch: MemberEpoch
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: TopologyEpoch
    process_id: str
    endpoint: Endpoint | None
    tags: Pairs
    assigned: Tasks
    target: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescription:
    """A streams group as administrators see it."""

    error: ErrorCode
    group_id: str
    message: str | None = None
    state: str = ""
    epoch: MemberEpoch = JOIN_EPOCH
    target_epoch: MemberEpoch = JOIN_EPOCH
    topology: Topology | None = None
    configured: Configured | None = None
    """The topology with its topics as they are; None while these are not as they have to be."""
    members: Iterable[StreamsMemberDescription] = ()
    """To be gone through once."""
