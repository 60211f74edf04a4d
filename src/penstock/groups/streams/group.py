"""A streams group of KIP-1071: what its confirmed records say, indexed.

    members ─► facts, target, current          who is in it, what each is to have and has
    topology ─► configured                     its topics as the cluster has them
    holders ─► members of each task            a task that is to be given up has a holder still

    Empty ─ first member ─► NotReady ─ topics are right ─► Assigning ─► Reconciling ─► Stable

The state is derived. What is configured, the wish to shut down and the state of endpoints are not
in the log: they begin anew with the partition.

Source: KIP-1071; Kafka, StreamsGroup.java.
"""

from enum import StrEnum

from penstock.groups.assigned.currents import MemberState
from penstock.groups.assigned.reconciled import ReconciledGroup
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.messages import EndpointTasks, StreamsHeartbeat
from penstock.groups.streams.records import MemberFacts
from penstock.groups.streams.tables import StreamsTables
from penstock.groups.streams.topology import Topology

CONFIGURED_TIMES = 2
"""A topology, and the one with its topics that is made of it."""
_INT32_MAX = 2**31 - 1


class StreamsGroupState(StrEnum):
    """The values are the names administrators see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup(ReconciledGroup[StreamsTables, StreamsHeartbeat]):
    """One group; see ReconciledGroup."""

    __slots__ = (
        "_state",
        "_topology",
        "_topology_bytes",
        "assign_at_ms",
        "configured",
        "endpoint_epoch",
        "endpoints",
        "shutdown_by",
    )

    def __init__(self, group_id: str, partition: int, *, wall_ms: int) -> None:
        super().__init__(group_id, partition, StreamsTables(group_id), wall_ms=wall_ms)
        self._state: StreamsGroupState | None = None
        self._topology: Topology | None = None
        """The one whose memory is counted, with what is made of it."""
        self._topology_bytes = 0
        self.configured: Configured | None = None
        """The topology with its topics when it was last compared with them."""
        self.assign_at_ms = 0
        """When the first assignment is due: more members may come until then."""
        self.shutdown_by: str | None = None
        """The member that wants all members to end."""
        self.endpoint_epoch = wall_ms // 1_000 % _INT32_MAX
        """Changes with the endpoints; a coordinator that takes over begins above what was told."""
        self.endpoints: tuple[EndpointTasks, ...] | None = None
        """The endpoints at that epoch; None if they are to be gathered."""

    @property
    def facts(self) -> dict[str, MemberFacts]:
        """What each member has said of itself."""
        return self.tables.facts

    @property
    def state(self) -> StreamsGroupState:
        """The state that administrators see."""
        if self.is_dead:
            return StreamsGroupState.DEAD
        if self._state is None:
            self._state = self._derive_state()
        return self._state

    def _derive_state(self) -> StreamsGroupState:
        if not self.facts:
            return StreamsGroupState.EMPTY
        topology = self.tables.topology
        if topology is None or topology.epoch != self.tables.streams_said.validated:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(map(self._has_its_target, self.facts)):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def _has_its_target(self, member_id: str) -> bool:
        current = self.currents.get(member_id)
        return (
            current is not None
            and current.epoch == self.target_epoch
            and current.state is MemberState.STABLE
        )

    def _changed(self) -> None:
        self._state = None
        endpoints_changed(self)
        self._count_topology()
        if not self.tables.facts:
            self.shutdown_by = None

    def _count_topology(self) -> None:
        """Count a topology as the objects that it is: a record of it has a tenth of their bytes."""
        topology = self.tables.topology
        if topology is not self._topology:
            size = 0 if topology is None else CONFIGURED_TIMES * topology.size_bytes
            self._pin(size - self._topology_bytes)
            self._topology, self._topology_bytes = topology, size


def endpoints_changed(group: StreamsGroup) -> None:
    """Members are to hear of the endpoints anew."""
    group.endpoint_epoch = (group.endpoint_epoch + 1) % _INT32_MAX
    group.endpoints = None
