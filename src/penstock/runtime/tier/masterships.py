"""Has each mastership of this node copy into the tier, as long as it lasts.

    every look, and when a role changes     led here, and anything to copy? ─► a Copying of its own
                                            another role, another epoch ─► it is cancelled

A mastership that copies asks the store first what it can do, then fences; so the one before it, on
whatever node, commits nothing any more. What is only begun here ends with the process.

Source: docs/adr/0121; Kafka `RemoteLogManager.onLeadershipChange`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, ReplicaSetId, TopicPartition
from penstock.base.ports import Randomness
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition
from penstock.broker.sets.retention_clock import RetentionClock
from penstock.broker.tier.places import TierPlaces
from penstock.broker.tier.source import TierSource
from penstock.broker.tier.view import CopyStanding, TierPlace, TierReads
from penstock.coordinator.calls.asking import Caller
from penstock.record.batch import read_header
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.runtime.tier.asking import OwnMetadata
from penstock.runtime.tier.copying import CopyConfig, Copying, Surroundings
from penstock.runtime.tier.freeing import Freeing
from penstock.runtime.tier.merging import MergeRoom, Merging
from penstock.runtime.tier.reads import RemoteReads
from penstock.runtime.tier.told import ToldRuns
from penstock.tier.config import TierConfig
from penstock.tier.copies.copier import Copier
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.copies.merge_plan import Bounds, MergePlanner
from penstock.tier.errors import NotInTier
from penstock.tier.metadata.commands import Fence
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.names import PROBE_BYTES, probes_of
from penstock.tier.port import Capabilities, ObjectStore
from penstock.tier.probe import probe, warning_of
from penstock.tier.service.coordinator import TierCoordinator

NONCE_BYTES = 16
NOT_BEGUN = "waiting"
"""In place of a step: the metadata is not loaded, the store not tried, or nothing is to be done."""
UPLOADS_AT_ONCE = 2
"""Objects of all sets that are in memory at a time."""
READ_BYTES = 1 << 20
"""Of one read; a larger batch comes alone."""
LOOK_MS_MAX = 1_000
"""Between two looks for masterships: how late one begins to copy."""

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]
"""Runs a named coroutine under supervision."""

log = logging.getLogger("penstock.tier")


class TierStore(NamedTuple):
    """The store of a cluster, and how masters are asked what is in it."""

    cluster_id: bytes
    store: ObjectStore
    caller: Caller


class _Mastership:
    """One set as long as it is led here in one epoch."""

    def __init__(self, member: ReplicaSetMember, source: TierSource) -> None:
        self.member = member
        self.leader_epoch: LeaderEpoch = member.leader_epoch
        self.source = source
        self.copier: Copier | None = None
        self.copying: Copying | None = None
        self.trouble: str | None = None
        """Why copying does not begin, when it was last tried."""
        self.task: asyncio.Task[None] | None = None
        self.is_over = False

    @property
    def stands(self) -> bool:
        member = self.member
        is_same = member.leader_epoch == self.leader_epoch
        return member.role is Role.MASTER and is_same and not self.is_over

    def standing(self) -> CopyStanding:
        copier, copying = self.copier, self.copying
        if copier is None or copying is None:
            return CopyStanding(NOT_BEGUN, self.trouble, {})
        manifests = copier.manifests if copier.is_open else {}
        return CopyStanding(copier.step.value, copying.trouble, manifests)

    def end(self) -> None:
        self.is_over = True
        if self.task is not None:
            self.task.cancel()


class TierMasterships:
    """The copying of one node."""

    def __init__(
        self,
        broker: Broker,
        coordinator: TierCoordinator,
        target: TierStore,
        config: TierConfig,
        *,
        randomness: Randomness,
        spawn: Spawn,
    ) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._cluster_id, self._store, caller = target
        self._config = config
        lease_ms = config.lease_ms
        self.place = TierPlace(
            config.url, config.endpoint, config.region, self._cluster_id, lease_ms
        )
        self._randomness = randomness
        self._spawn = spawn
        self._places = TierPlaces(broker)
        self._by_set: dict[ReplicaSetId, _Mastership] = {}
        self._capabilities: Capabilities | None = None
        self.reads: TierReads
        self.reads = reads = RemoteReads(
            self._store,
            self.manifest,
            config,
            raise_start=self._raise_start,
            spawn=spawn,
            told=ToldRuns(caller, broker.clock, self._cluster_id),
        )
        self._retention_clock = RetentionClock(broker.clock)
        self._freeing = Freeing(
            lambda key: broker.partitions.by_id.get(key.topic_id),
            reads.reader,
            self._retention_clock.now_ms,
            reads.counters,
        )
        self._reader = reads.reader
        self._room = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._merges = MergeRoom(broker.clock, config.merge_bytes_per_second)
        self._is_failing = False
        self.counters = CopyCounters()

    def listen_to(self, member: ReplicaSetMember) -> None:
        """End the copying of a member's mastership with it; called for each that is opened."""
        member.on_role_changed.append(self._on_role_changed)

    def _on_role_changed(self, member: ReplicaSetMember) -> None:
        known = self._by_set.get(member.replica_set_id)
        if known is not None and not known.stands:
            self._end(known)

    def manifest(self, member: ReplicaSetMember, key: TopicPartition) -> Manifest | None:
        """Return what the tier has of a partition that is led here, as no failover can undo it.

        None: it is not known (yet), or nothing of the set is copied. What was given up is not in
        it, though it may be in the store, and in the metadata, for a while; nor what was deleted
        before the topic had local limits.
        """
        known = self._by_set.get(member.replica_set_id)
        found = None if known is None else self._fenced_manifest(known, key)
        return found if known is None or found is None else known.source.known(key, found)

    def _fenced_manifest(self, one: _Mastership, key: TopicPartition) -> Manifest | None:
        if one.copier is None or not one.copier.is_open:
            return None
        found = one.copier.manifests.get(key)
        give_ups = self._broker.metadata.configuration.give_ups.get(key.topic_id, 0)
        return Manifest() if found is not None and found.give_ups < give_ups else found

    def standing(self, member: ReplicaSetMember) -> CopyStanding | None:
        """As in TierView."""
        known = self._by_set.get(member.replica_set_id)
        return known.standing() if known is not None and known.stands else None

    async def read(self, member: ReplicaSetMember, key: TopicPartition, offset: int) -> memoryview:
        """Return whole batches of a partition that is led here; the first begins at `offset`.

        Raises TierError: the tier does not have them, or its store does not give them now.
        """
        manifest = self.manifest(member, key)
        if manifest is None:
            raise NotInTier(key, offset)
        batches, _ = await self._reader.read(manifest.copy(), key, offset, READ_BYTES)
        if not batches or read_header(batches[0]).base_offset != offset:
            raise NotInTier(key, offset)
        return memoryview(b"".join(batches))

    def metadata_of(self, set_id: ReplicaSetId) -> TierMetadata | None:
        """Return the metadata of a set; None: it is not loaded here."""
        partition = self._places.partition_of(set_id)
        return None if partition is None else self._coordinator.metadata(partition)

    def waiting_bytes(self, member: ReplicaSetMember) -> int:
        """Return the bytes of records of a set that may be copied and are not; a lower bound."""
        known = self._by_set.get(member.replica_set_id)
        return 0 if known is None or not known.stands else known.source.waiting_bytes

    async def _raise_start(self, hosted: HostedPartition, offset: Offset) -> bool:
        """Ask that the tier keeps nothing of a partition below an offset; say whether it is so."""
        key, known = hosted.log.topic_partition, self._by_set.get(hosted.member.replica_set_id)
        manifest = self.manifest(hosted.member, key)
        if known is None or manifest is None:
            return False
        wanted = min(offset, manifest.end_offset)
        if not manifest.runs or manifest.start_offset >= wanted:
            return True
        known.source.raise_tier_start(key, wanted)
        return False

    async def free(self) -> None:
        """Free disks of what the tier has, until it is cancelled."""
        while True:
            for one in list(self._by_set.values()):
                manifest_of = partial(self.manifest, one.member)
                await self._freeing.look(one.member, one.source, manifest_of)
            await asyncio.sleep(self._config.look_ms / 1000)

    async def run(self) -> None:
        """Begin and end what the roles of the members ask for, until it is cancelled."""
        while True:
            self._retention_clock.now_ms()  # it has to be looked at to see a jump
            for member in list(self._broker.members.values()):
                await self._look(member)
            await asyncio.sleep(min(self._config.look_ms, LOOK_MS_MAX) / 1000)

    async def _look(self, member: ReplicaSetMember) -> None:
        set_id = member.replica_set_id
        known = self._by_set.get(set_id)
        if known is not None and (known.member is not member or not known.stands):
            self._end(known)
            known = None
        if member.role is not Role.MASTER or member.log.is_busy or member.log.is_fenced:
            return
        if known is None:
            known = self._by_set[set_id] = _Mastership(member, self._source_of(member))
        if not known.source.is_wanted:
            return
        await self._places.ensure(set_id)
        if known.stands and self.metadata_of(set_id) is not None and await self._can_look(known):
            self._begin(known)

    def _source_of(self, member: ReplicaSetMember) -> TierSource:
        set_id = member.replica_set_id
        return TierSource(
            self._broker,
            member,
            (self._cluster_id, int(set_id)),
            lambda: self.metadata_of(set_id),
            self._config.object_bytes,
        )

    async def _can_look(self, one: _Mastership) -> bool:
        """Find out what is new in a log; return whether that, and the store, can be used."""
        try:
            await one.source.look()
            one.source.note_limits(partial(self._fenced_manifest, one))
            if self._capabilities is None:
                self._capabilities = await self._probe()
        except PlatformError as error:
            self.counters.failures += 1
            one.trouble = str(error)
            level = logging.DEBUG if self._is_failing else logging.WARNING
            text = "set=%d is not copied now: %s; tried again"
            log.log(level, text, one.member.replica_set_id, error)
            self._is_failing = True
            return False
        self._is_failing = False
        one.trouble = None
        return one.stands

    async def _probe(self) -> Capabilities:
        """Return what the store does. Raises StoreError."""
        name = f"{probes_of(self._cluster_id)}/{self._randomness.token_bytes(PROBE_BYTES).hex()}"
        found = await probe(self._store, name)
        if warning := warning_of(found):
            log.warning("%s", warning)
        return found

    def _begin(self, one: _Mastership) -> None:
        """Have a mastership copied, unless it is."""
        if one.copier is not None:
            return
        assert self._capabilities is not None
        set_id, epoch = int(one.member.replica_set_id), one.leader_epoch
        fence = Fence(set_id, epoch, self._randomness.token_bytes(NONCE_BYTES))
        times, config = self._config.times(), self._config
        merging = self._merging_of(one)
        planner = None if merging is None else merging.planner
        one.copier = Copier(fence, self._cluster_id, one.source, times, planner)
        one.source.may_free = one.copier.may_free
        metadata = OwnMetadata(
            self._coordinator, lambda: self._places.partition_of(one.member.replica_set_id)
        )
        one.copying = copying = Copying(
            one.copier,
            Surroundings(
                one.source, metadata, self._store, self._capabilities, self._broker.clock, merging
            ),
            config=CopyConfig(pause_ms=config.look_ms),
            counters=self.counters,
            room=self._room,
        )
        one.source.on_news = copying.knock
        self._spawn("tier copies", self._copy(one, copying))

    def _merging_of(self, one: _Mastership) -> Merging | None:
        """Return what merges the runs of a mastership; None: they stay as they are."""
        rules, room = self._config.merge_rules(), self._merges
        if rules is None:
            return None
        bounds = Bounds(one.source.mergeable_from, self._retention_clock.now_ms, room.has_place)
        identity = self._cluster_id, int(one.member.replica_set_id)
        return Merging(self._store, MergePlanner(rules, bounds), room, identity)

    async def _copy(self, one: _Mastership, copying: Copying) -> None:
        """Run a mastership's copying until it ends, or is ended."""
        log.info("set=%d epoch=%d is copied", one.member.replica_set_id, one.leader_epoch)
        one.task = task = asyncio.create_task(copying.run())
        try:
            if one.is_over:  # before it began
                return
            await asyncio.wait({task})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _end(self, one: _Mastership) -> None:
        one.end()
        if self._by_set.get(one.member.replica_set_id) is one:
            del self._by_set[one.member.replica_set_id]
