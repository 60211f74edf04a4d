"""The broker: what the fronts share. It owns no rules; it is the table the parts lie on.

members      one per replica set on this node: log, role, epoch, confirm position, purgatory
partitions   topics by name and by id, following the cluster image
controller   where metadata changes go; `metadata` is the image they come back as
groups       the coordinator of the groups whose internal partition is led here

Who moves a member between roles (runtime) has to do nothing else: `add_member` listens to it.

    role changed   topics that are gone are dropped (master), groups move, parked fetches look again
    log reopened   partitions are bound to the new objects
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock.base.ports import Clock, Offload, Scheduler
from penstock.broker.access import Authoriser, PermitsAll
from penstock.broker.append.producer_ids import ProducerIdPool
from penstock.broker.config import BrokerConfig
from penstock.broker.fetch.partition_shares import FetchPartitions
from penstock.broker.fetch.read_ahead import ReadAhead
from penstock.broker.fetch.short_fetches import ShortFetches
from penstock.broker.idle_keys import IdleKeys
from penstock.broker.log_directories import LogDirectory
from penstock.broker.long_places import LongPlaces
from penstock.broker.partitions import PartitionRegistry
from penstock.broker.sets.leftovers import Leftovers
from penstock.broker.sets.replica_set import ReplicaSetMember, Role
from penstock.broker.stats import BrokerStats
from penstock.broker.turns import Turns
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.port import ControllerPort
from penstock.controller.session import ElectRequest, TransferRequest

if TYPE_CHECKING:
    from penstock.broker.coordinators.hosted import HostedCoordinator
    from penstock.broker.quorum import Quorum
    from penstock.groups.coordinator import GroupCoordinator

log = logging.getLogger(__name__)


class Operations(Protocol):
    """The active controller's operations that are no commands (the session client has them)."""

    async def operate(self, make: Callable[[int], ElectRequest | TransferRequest]) -> str:
        """Carry out what `make(request id)` asks for. Raises MetadataError kinds."""

    async def quorum(self) -> Quorum:
        """Return who keeps the metadata log. Raises MetadataError kinds."""

    async def change_feature(
        self, feature: str, level: int, *, is_lowering: bool, is_trial: bool
    ) -> None:
        """Raise or lower a feature's level, or see whether it could be. Raises MetadataError."""


class Broker:
    """One broker of the cluster, as its handlers see it."""

    def __init__(
        self,
        *,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        metadata: ClusterImage,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self.clock = clock
        self.scheduler = scheduler
        self.metadata = metadata
        self.workers: Offload
        """For what takes long with batches; no disk waits for it."""
        self.memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.stats = BrokerStats()
        self.members: dict[int, ReplicaSetMember] = {}
        self.partitions = PartitionRegistry(self.members)
        self.read_ahead = ReadAhead(scheduler, self.stats, config.fetch_read_ahead_bytes)
        self.producer_ids = ProducerIdPool()
        self.controller: ControllerPort
        self.operations: Operations | None = None
        """None on a node without sessions to controllers: it has nobody to elect."""
        self.groups: GroupCoordinator
        self.coordinators: dict[str, HostedCoordinator] = {}
        """What follows where the partitions of internal topics are led, by topic."""
        self.authoriser: Authoriser = PermitsAll()
        """Fronts ask it, each at its one place (kafka/gate.py)."""
        self.log_directories: Callable[[], list[LogDirectory]] = list
        """Where logs are, with what their file systems say."""
        self.leftovers = Leftovers()
        self._idle_keys = IdleKeys()
        self.is_suspect: Callable[[int], bool] = _nobody
        """Whether a broker is probably dead, though no controller has said so yet."""
        self.turns = Turns(scheduler, clock)
        self.on_expire: list[Callable[[int], None]] = []
        """What else has deadlines: each gets the monotonic time in ms, several times a second."""
        self.long_places = LongPlaces()
        self.fetch_partitions = FetchPartitions()
        self.short_fetches = ShortFetches(scheduler)

    def follow(self, image: ClusterImage) -> None:
        """Open what the image holds already, and follow its changes from now on."""
        for topic in image.topics_by_id.values():
            self.partitions.apply_topic(topic)
        for member in self.members.values():
            self._listen_to(member)
        image.subscribe(self.apply_delta)

    def add_member(self, member: ReplicaSetMember) -> None:
        """Carry a replica set from now on, in whatever role; topics may be known already."""
        self.members[member.replica_set_id] = member
        self.leftovers.note_opened(member)
        self.partitions.add_member(member)
        self._listen_to(member)

    def remove_member(self, member: ReplicaSetMember) -> None:
        """Carry a replica set no longer. The member must have resigned; its log stays open."""
        assert member.role is not Role.MASTER, member.replica_set_id
        self.members.pop(member.replica_set_id, None)
        if self.on_role_changed in member.on_role_changed:
            member.on_role_changed.remove(self.on_role_changed)
            member.on_reopened.remove(self.on_log_reopened)
        self.partitions.remove_member(member.replica_set_id)

    def host(self, coordinator: HostedCoordinator) -> None:
        """Let a coordinator follow the mastership of its internal partitions, beginning now."""
        assert coordinator.topic not in self.coordinators, coordinator.topic
        self.coordinators[coordinator.topic] = coordinator
        coordinator.reconcile()

    def on_role_changed(self, member: ReplicaSetMember) -> None:
        """Act on another role or another leader epoch of a member.

        A log may still know partitions of topics that were deleted while it followed, or just
        before a crash. A mastership that goes on after a restart leaves them: what it wrote before
        may be of topics that this process has yet to hear of again.
        """
        if member.role is Role.MASTER and not member.has_resumed:
            dropped = self.partitions.drop_unknown(member, self.metadata.topics_by_id)
            if dropped:
                log.info("set=%d partitions of deleted topics=%d", member.replica_set_id, dropped)
        self._reconcile()
        for hosted in self.partitions.of_set(member.replica_set_id):
            hosted.changed()

    def on_log_reopened(self, member: ReplicaSetMember) -> None:
        """Go by a log that was cut or replaced."""
        self.leftovers.note_reopened(member)
        self.partitions.reopen(member)

    def _listen_to(self, member: ReplicaSetMember) -> None:
        if self.on_role_changed in member.on_role_changed:
            return
        member.on_role_changed.append(self.on_role_changed)
        member.on_reopened.append(self.on_log_reopened)
        self.on_role_changed(member)

    def apply_delta(self, delta: ClusterDelta) -> None:
        """Follow one change of the cluster image."""
        for topic in (*delta.created_topics, *delta.changed_configs):
            self.partitions.apply_topic(topic)
        self._idle_keys.note(delta)
        for added in delta.added_partitions:
            self.partitions.apply_topic(added.topic)
        for topic in delta.deleted_topics:
            self.leftovers.note_deleted(topic.topic_id)
            self.partitions.remove_topic(topic.topic_id)
            log.info("topic=%s id=%s deleted", topic.name, topic.topic_id.hex())
        if delta.deleted_topics and hasattr(self, "groups"):  # made while the node starts
            self.groups.on_topics_deleted(
                {topic.name: topic.topic_id for topic in delta.deleted_topics}
            )
        if delta.created_topics or delta.added_partitions:
            self._reconcile()

    def _reconcile(self) -> None:
        for coordinator in self.coordinators.values():
            coordinator.reconcile()

    def drop_leftovers(self) -> None:
        """Drop what the logs hold of topics that are no more."""
        for member in self.members.values():
            dropped = self.leftovers.drop(member, self.metadata.topics_by_id)
            if dropped:
                log.info("set=%d partitions of deleted topics=%d", member.replica_set_id, dropped)

    def expire_waiting(self) -> None:
        """Time out produce requests whose disk or replicas did not answer in time."""
        now_ms = self.clock.monotonic_ms()
        for expire in self.on_expire:
            expire(now_ms)
        for member in self.members.values():
            member.waiting_for_all.expire(now_ms)
            member.waiting_for_master.expire(now_ms)


def _nobody(broker_id: int) -> bool:
    """Suspect nobody: without links to others there is nothing to go by."""
    del broker_id
    return False
