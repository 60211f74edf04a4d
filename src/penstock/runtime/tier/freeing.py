"""Frees the members' disks of what the tier has, and the tier of what is kept no more.

    every look, in each partition with local limits that is led here
        too old, too much on the disk? ─► does the store give back what tells of it?
            ─► the local start rises by a frame of the log, on every member
        too old, too much in all?      ─► the tier's start rises (copier.py)

Members delete nothing of such a topic by themselves, unless its copying is disabled. The frame
comes behind the record of the copy in the same log: who has the one has the other, on every member,
after every election.

Source: docs/adr/0124; Kafka `RemoteLogManager.RLMExpirationTask`, `UnifiedLog.deleteOldSegments`.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, TopicPartition
from penstock.broker.partitions import HostedTopic
from penstock.broker.tier.source import TierSource
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.storage.commit_log.set_log import kept_bytes
from penstock.storage.errors import StorageError
from penstock.storage.index.partition_log import PartitionLog
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.read.counters import ReadCounters
from penstock.tier.read.reader import TierReader
from penstock.tier.retention import (
    NO_LIMIT,
    Held,
    Limits,
    first_offset,
    is_run_edge,
    local_limits,
    local_start,
    tier_start,
)

RUNS_MAX = 64
"""Of one partition in one look: a small read of the store for each."""

log = logging.getLogger("penstock.tier")

TopicOf = Callable[[TopicPartition], HostedTopic | None]
ManifestOf = Callable[[TopicPartition], Manifest | None]


class Freeing:
    """The disks of the sets that are led here. Used on the loop."""

    def __init__(
        self,
        topic_of: TopicOf,
        reader: TierReader,
        now_ms: Callable[[], int],
        counters: ReadCounters,
    ) -> None:
        """`now_ms` is the time of retention, which ignores jumps of the clock."""
        self._topic_of = topic_of
        self._reader = reader
        self._now_ms = now_ms
        self._counters = counters

    async def look(
        self,
        member: ReplicaSetMember,
        source: TierSource,
        manifest_of: ManifestOf,
    ) -> None:
        """Look at every partition of a mastership once. Raises TierError of the store's."""
        for key in source.limited():
            manifest, topic = manifest_of(key), self._topic_of(key)
            partition = member.log.partitions.get(key)
            if manifest is None or topic is None or partition is None or topic.local is None:
                continue
            own = partition.log_start_offset
            if first_offset(manifest, own) < own or own <= manifest.start_offset:
                await self._look(member, source, partition, topic, manifest_of)

    async def _look(
        self,
        member: ReplicaSetMember,
        source: TierSource,
        partition: PartitionLog,
        topic: HostedTopic,
        manifest_of: ManifestOf,
    ) -> None:
        manifest = manifest_of(partition.topic_partition)
        assert topic.local is not None
        assert manifest is not None
        settings = topic.settings
        whole = (
            Limits(settings.retention_ms, settings.retention_bytes)
            if settings.deletes
            else Limits(NO_LIMIT, NO_LIMIT)
        )
        held = Held(partition.log_start_offset, kept_bytes(member.log, partition))
        now_ms = self._now_ms()
        source.raise_tier_start(
            partition.topic_partition, tier_start(manifest, held, whole, now_ms)
        )
        if not topic.local.is_copied:  # each member deletes by itself
            return
        limits = local_limits(Limits(topic.local.ms, topic.local.bytes), whole)
        wanted = local_start(manifest, held, limits, now_ms)
        if wanted <= held.start_offset:
            return
        epoch, runs = member.leader_epoch, _runs_between(manifest, held.start_offset)
        freed = await self._given_back(runs, held.start_offset, wanted)
        is_led = member.role is Role.MASTER and member.leader_epoch == epoch
        if not is_led or partition.is_dropped or freed <= partition.log_start_offset:
            return
        # Its runs may have become one meanwhile, or be about to.
        present = manifest_of(partition.topic_partition)
        is_edge = present is not None and is_run_edge(present, freed)
        if is_edge and source.may_free(partition.topic_partition, freed):
            self._free(member, partition, freed)

    def _free(self, member: ReplicaSetMember, partition: PartitionLog, start: int) -> None:
        with suppress(StorageError):  # no space, or the log is opened anew: the next look tries
            member.log.delete_records(partition, Offset(start))
            self._counters.freed += 1

    async def _given_back(self, runs: Sequence[Run], start: int, wanted: int) -> int:
        """Return the end of the runs up to `wanted` that the store has and whose transactions the
        tier decides: what it gives back of a run tells both.
        """
        decided, ends = start, []
        for run in runs:
            if decided >= wanted:
                break
            try:
                notes = await self._reader.notes(run)
            except PlatformError as error:
                log.warning("the disks keep what %s has: %s", run.name, error)
                self._counters.read_failures += 1
                break
            ends.append(run.end_offset)
            if run.end_offset == run.entry.end_offset:
                decided = max(decided, notes.decided_end)
        return max((end for end in ends if end <= min(wanted, decided)), default=start)


def _runs_between(manifest: Manifest, start: int) -> list[Run]:
    """Return the first runs from an offset on."""
    found: list[Run] = []
    run = manifest.run_at(start)
    while run is not None and len(found) < RUNS_MAX:
        found.append(run)
        run = manifest.run_at(run.end_offset)
    return found
