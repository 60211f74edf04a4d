"""The broker: the objects that the fronts share, without rules of its own.

members      one per replica set on this node: log, role, epoch, confirm position, purgatory
partitions   topics by name and by id, following the cluster image
controller   where metadata changes are submitted; `metadata` is the image with the result
groups       the coordinator of the groups whose internal partition is led here

The runtime, which changes a member's role, only calls the member; `add_member` registers listeners:

    role changed   partitions of deleted topics are dropped (master), groups are loaded or unloaded,
                   parked fetches check again
    log reopened   partitions are bound to the new PartitionLog objects
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.base.ports import Clock, Offload, Scheduler
from penstock.broker.access import Authoriser, PermitsAll
from penstock.broker.append.producer_ids import ProducerIdPool
from penstock.broker.append.verification import Verifier
from penstock.broker.config import BrokerConfig
from penstock.broker.denials import Denials
from penstock.broker.fetch.partition_shares import FetchPartitions
from penstock.broker.fetch.read_ahead import ReadAhead
from penstock.broker.fetch.sent_away import SentAway
from penstock.broker.fetch.short_fetches import ShortFetches
from penstock.broker.fetch.wakes import Wakes
from penstock.broker.idle_keys import IdleKeys
from penstock.broker.lately_fenced import LatelyFenced
from penstock.broker.log_directories import LogDirectory
from penstock.broker.long_places import LongPlaces
from penstock.broker.look_ups import QUEUES, LookUps
from penstock.broker.partitions import PartitionRegistry
from penstock.broker.sets.leftovers import Leftovers
from penstock.broker.stats import BrokerStats
from penstock.broker.turns import Turns
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.port import ControllerPort
from penstock.controller.session import ElectRequest, TransferRequest
from penstock.quotas.table import QuotaTable
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.shares.coordinator import ShareCoordinator
from penstock.transactions.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from penstock.audit.port import Audit
    from penstock.broker.coordinators.hosted import HostedCoordinator, PlacesOfShares
    from penstock.broker.quorum import Quorum
    from penstock.broker.tier.view import TierView
    from penstock.groups.coordinator import GroupCoordinator
    from penstock.shares.updates.tracing import MessageTraces
    from penstock.telemetry.port import MetricsSink

log = logging.getLogger(__name__)


class Operations(Protocol):
    """The active controller's operations that are not commands; the session client has them."""

    async def operate(self, make: Callable[[int], ElectRequest | TransferRequest]) -> str:
        """Execute the request that `make(request id)` returns. Raises MetadataError kinds."""

    async def quorum(self) -> Quorum:
        """Return the voters and observers of the metadata log. Raises MetadataError kinds."""

    async def change_feature(
        self, feature: str, level: int, *, is_lowering: bool, is_trial: bool
    ) -> None:
        """Raise or lower a feature's level, or only validate the change. Raises MetadataError."""


class Broker:
    """One broker of the cluster, as its handlers see it."""

    client_metrics: MetricsSink | None = None
    """What clients push of their own metrics; None while that is off."""
    message_trace: MessageTraces | None = None
    """What becomes of messages; None while that is off."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
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
        """Workers for long preparation of batches; no disk depends on them."""
        self.memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.stats = BrokerStats()
        self.members: dict[ReplicaSetId, ReplicaSetMember] = {}
        self.wakes = Wakes(scheduler, clock, self.stats.fetch_wakes.note)
        self.partitions = PartitionRegistry(self.members, scheduler, self.wakes)
        self.read_ahead = ReadAhead(scheduler, self.stats, config.fetch_read_ahead_bytes)
        self.producer_ids = ProducerIdPool()
        self.controller: ControllerPort
        self.operations: Operations | None = None
        """None on a node without sessions to controllers, which has nothing to elect."""
        self.verifier: Verifier
        """Asks coordinators about transactions."""
        self.transactions: TransactionCoordinator
        self.shares: ShareCoordinator
        self.share_places: PlacesOfShares
        self.groups: GroupCoordinator
        self.tier: TierView | None = None
        """None where nothing is copied into an object store."""
        self.coordinators: dict[str, HostedCoordinator] = {}
        """The coordinators hosted here, by internal topic; they follow its masterships."""
        self.authoriser: Authoriser = PermitsAll()
        """Called by each front in a single place (kafka/gate.py)."""
        self.denials = Denials(clock)
        self.audit: Audit | None = None
        """What clients do, for the audit; None while that is off."""
        self.quota_table = QuotaTable(metadata.configuration.quotas)
        self.quotas: QuotaTable | None = None
        """What clients are limited by; None while no user and no client id has a quota."""
        self.log_directories: Callable[[], list[LogDirectory]] = list
        """Directories of logs, with free and total space."""
        self.leftovers = Leftovers()
        self.idle_keys = IdleKeys()
        self.lately_fenced = LatelyFenced(clock, config.fenced_told_ms)
        self.is_suspect: Callable[[BrokerId], bool] = _nobody
        """Whether a broker is probably dead although no controller has fenced it yet."""
        self.turns = Turns(scheduler, clock)
        self.on_expire: list[Callable[[int], None]] = [self.denials.expire]
        """Other objects with deadlines, called several times a second with monotonic ms."""
        self.long_places = LongPlaces()
        self.look_ups, self.tier_look_ups = (LookUps(scheduler, clock, one) for one in QUEUES)
        self.fetch_partitions = FetchPartitions()
        self.sent_away = SentAway(clock)
        self.short_fetches = ShortFetches(scheduler)

    def follow(self, image: ClusterImage) -> None:
        """Adopt the topics that the image has, and follow its changes from now on."""
        for topic in image.topics_by_id.values():
            self.partitions.apply_topic(topic)
        for member in self.members.values():
            self._listen_to(member)
        self._follow_quotas()
        self.lately_fenced.begin(image)
        image.subscribe(self.apply_delta)

    def add_member(self, member: ReplicaSetMember) -> None:
        """Host a replica set from now on, in any role; its topics may be known already."""
        self.members[member.replica_set_id] = member
        self.leftovers.note_opened(member)
        self.partitions.add_member(member)
        self._listen_to(member)

    def remove_member(self, member: ReplicaSetMember) -> None:
        """Stop hosting a replica set. The member must have resigned; its log stays open."""
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
        """React to another role or another leader epoch of a member.

        A log may still have partitions of topics that were deleted while it followed, or just
        before a crash. A mastership that resumes after a restart keeps them: records from before
        the restart may be of topics that this process has not replayed yet.
        """
        if member.role is Role.MASTER and not member.has_resumed:
            dropped = self.partitions.drop_unknown(member, self.metadata.topics_by_id)
            if dropped:
                log.info("set=%d partitions of deleted topics=%d", member.replica_set_id, dropped)
        self._reconcile()
        for hosted in self.partitions.of_set(member.replica_set_id):
            hosted.changed()

    def on_log_reopened(self, member: ReplicaSetMember) -> None:
        """React to a log that was truncated or replaced."""
        self.leftovers.note_reopened(member)
        self.partitions.reopen(member)

    def _listen_to(self, member: ReplicaSetMember) -> None:
        if self.on_role_changed in member.on_role_changed:
            return
        member.on_role_changed.append(self.on_role_changed)
        member.on_reopened.append(self.on_log_reopened)
        self.on_role_changed(member)

    def apply_delta(self, delta: ClusterDelta) -> None:
        """Apply one change of the cluster image."""
        for topic in (*delta.created_topics, *delta.changed_configs):
            self.partitions.apply_topic(topic)
        self.idle_keys.note(delta)
        self.lately_fenced.note(delta)
        if delta.changed_quotas:
            self._follow_quotas()
        for added in delta.added_partitions:
            self.partitions.apply_topic(added.topic)
        for topic in delta.deleted_topics:
            self.leftovers.note_deleted(topic.topic_id)
            self.partitions.remove_topic(topic.topic_id)
            log.info("topic=%s id=%s deleted", topic.name, topic.topic_id.hex())
        if delta.deleted_topics and hasattr(self, "groups"):  # set later while the node starts
            self.groups.on_topics_deleted(
                {topic.name: topic.topic_id for topic in delta.deleted_topics}
            )
        if delta.deleted_topics:
            self._forget_shares()
        if delta.created_topics or delta.added_partitions:
            self._reconcile()

    def _follow_quotas(self) -> None:
        self.quota_table.changed()
        self.quotas = self.quota_table if self.quota_table.limits_clients else None

    def _reconcile(self) -> None:
        for coordinator in self.coordinators.values():
            coordinator.reconcile()

    def drop_leftovers(self) -> None:
        """Drop what the logs hold of deleted topics."""
        for member in self.members.values():
            dropped = self.leftovers.drop(member, self.metadata.topics_by_id)
            if dropped:
                log.info("set=%d partitions of deleted topics=%d", member.replica_set_id, dropped)
        self._forget_shares()

    def _forget_shares(self) -> None:
        """Forget the shares of deleted topics."""
        if hasattr(self, "shares"):  # set later while the node starts
            self.shares.forget(self.share_places.is_gone)

    def expire_waiting(self) -> None:
        """Time out produce requests whose disk or replicas did not acknowledge in time."""
        now_ms = self.clock.monotonic_ms()
        for expire in self.on_expire:
            expire(now_ms)
        for member in self.members.values():
            member.waiting_for_all.expire(now_ms)
            member.waiting_for_master.expire(now_ms)


def _nobody(broker_id: BrokerId) -> bool:
    """Suspect no broker; the default without links to others."""
    del broker_id
    return False
