"""The log of one mastership as the tier's copier sees it.

    partitions   those to be copied, once it is known which masterships have written them; and those
                 of which the tier has something, also of topics that were deleted
    own          epochs as they were when this mastership began, and its own behind them
    plans        made off the loop: the first question gets none, and a knock when they are there
    log starts   count when a snapshot has them, so that none ever falls behind a delete in the tier
    limits       local ones count once the tier has nothing below the log: what it has there when
                 they come was deleted, and lies as if the disks had been freed of it

Source: docs/adr/0117, docs/adr/0121; KIP-405 (RemoteLogManager's RLMCopyTask, by partition there).

Deliberately not here: when a mastership begins and ends, the store, the metadata.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedTopic
from penstock.broker.sets.outcome import outcome
from penstock.controller.topic_config.local import is_copied, is_deleted_from_store
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.epoch_walk import EpochLog, Epochs, EpochsFound, EpochWalk
from penstock.storage.second_level.split import Identity
from penstock.tier.copies.alignment import OwnLog
from penstock.tier.copies.effects import Plan
from penstock.tier.copies.source import Image
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.retention import first_offset

KEYS_PER_TURN = 100
"""Partitions that are looked at before other work of the loop has its turn: some ms."""
NEVER = 1 << 62
"""The end of a log that has nothing to say of a partition: nothing is cut for it."""


class Begun(NamedTuple):
    """A partition when this mastership first looked at it."""

    epochs: tuple[tuple[int, int], ...]
    log_end: int
    """Exclusive; what is behind it is of this mastership's epoch."""


class TierSource:
    """Implements Source for one mastership. Used on the loop."""

    def __init__(
        self,
        broker: Broker,
        member: ReplicaSetMember,
        identity: Identity,
        metadata: Callable[[], TierMetadata | None],
        object_bytes: int,
    ) -> None:
        """`metadata()` returns that of the set; None while it is not loaded."""
        self._broker = broker
        self._member = member
        self._leader_epoch = member.leader_epoch
        self._identity = identity
        self._metadata = metadata
        self._object_bytes = object_bytes
        self._begun: dict[TopicPartition, Begun] = {}
        self._durable_starts: dict[TopicPartition, int] = {}
        self._tier_starts: dict[TopicPartition, int] = {}
        """Of partitions with local limits: where the tier is to begin, as retention and clients
        have asked of this mastership. The tier's own start is what the next one knows of it."""
        self._whole: set[TopicPartition] = set()
        """Partitions that begin where their log does: had no local limits when they were looked at,
        and the tier has not let go since of what it has below."""
        self._is_checkpointing = False
        self._planned: tuple[Mapping[TopicPartition, int], Sequence[Plan]] | None = None
        self._is_planning = False
        self.may_free: Callable[[TopicPartition, int], bool] = lambda _key, _offset: True
        """Whether the tier will go on to have an edge of runs there; see Copier."""
        self.on_news: Callable[[], None] = lambda: None
        """Called when there is more to be told than at the last question."""

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to copy, or anything that was copied, or may have been put.

        What a master before this one reserved may lie in the store although none of it was ever
        committed, and its topic may be gone by now: somebody has to delete it.
        """
        metadata = self._metadata()
        has_some = metadata is not None and bool(metadata.partitions() or metadata.objects.rows)
        return has_some or next(iter(self._wanted()), None) is not None

    def _wanted(self) -> Iterator[TopicPartition]:
        """Yield the partitions of the set that are to be copied."""
        for key in self._member.log.partitions:
            topic = self._broker.partitions.by_id.get(key.topic_id)
            if topic is not None and self._is_copied(topic):
                yield key

    def _is_copied(self, topic: HostedTopic) -> bool:
        if topic.internal or topic.settings.is_compacted:
            return False
        image = self._broker.metadata.topics_by_id.get(topic.topic_id)
        return image is not None and is_copied(image.configs)

    def _is_emptied(self, key: TopicPartition) -> bool:
        """Whether the tier is to have nothing of a partition, and its topic stays.

        Where give-ups are counted, they alone say so: a topic that this node takes to be off may
        have been on again since, and what was copied then may be in the store alone.
        """
        image = self._broker.metadata.topics_by_id.get(key.topic_id)
        if image is None or self._give_ups(key):
            return False
        return is_deleted_from_store(image.configs)

    def _give_ups(self, key: TopicPartition) -> int:
        """Return how often copies of a partition were given up."""
        return self._broker.metadata.configuration.give_ups.get(key.topic_id, 0)

    def _is_older(self, key: TopicPartition) -> bool:
        """Whether all that the tier has of a partition was given up."""
        metadata = self._metadata()
        return metadata is not None and metadata.manifest(key).give_ups < self._give_ups(key)

    def _copied_before(self) -> list[TopicPartition]:
        """Return the partitions of which the tier has something."""
        metadata = self._metadata()
        if metadata is None:
            return []
        return [key for key in metadata.partitions() if metadata.manifest(key).runs]

    async def look(self) -> None:
        """Find out what is to be known of partitions that are new here. Raises PlatformError."""
        for number, key in enumerate([*self._wanted(), *self._copied_before()]):
            if number % KEYS_PER_TURN == 0:
                await asyncio.sleep(0)
            partition = self._member.log.partitions.get(key)
            if key not in self._begun and partition is not None:
                log_end = partition.log_end_offset
                epochs = await self._epochs_of(partition)
                self._begun[key] = Begun(tuple(epochs), log_end)
                self.on_news()
            if self._is_emptied(key) or self._is_older(key):
                self.on_news()
        self._note_starts()

    def note_limits(self, manifest_of: Callable[[TopicPartition], Manifest | None]) -> None:
        """Find out which partitions begin where their log does; `manifest_of`: None, not known."""
        for key in self._begun:
            if not self._has_limits(key):
                self._whole.add(key)
            elif key in self._whole and self._has_let_go(key, manifest_of(key)):
                self._whole.discard(key)

    def _has_let_go(self, key: TopicPartition, manifest: Manifest | None) -> bool:
        """Whether the tier has nothing of a partition below its log."""
        partition = self._member.log.partitions.get(key)
        if manifest is None or partition is None:
            return False
        return not manifest.runs or manifest.start_offset >= partition.log_start_offset

    async def _epochs_of(self, partition: PartitionLog) -> Epochs:
        log = self._member.log
        found: Epochs = await outcome(lambda done: _walk(log, partition, done))
        return found

    def _note_starts(self) -> None:
        """Have log starts that rose made durable: only then they count."""
        starts = {
            key: int(partition.log_start_offset)
            for key in self._begun
            if (partition := self._member.log.partitions.get(key)) is not None
        }
        if self._is_checkpointing or all(
            start == self._durable_starts.get(key, 0) for key, start in starts.items()
        ):
            return

        def taken(worked: bool) -> None:
            self._is_checkpointing = False
            if worked:
                self._durable_starts = starts
                self.on_news()

        self._is_checkpointing = True
        self._member.log.checkpoint(taken)

    def partitions(self) -> Sequence[TopicPartition]:
        """As in CopiedLog."""
        gone = [key for key in self._copied_before() if key not in self._begun]
        return sorted([*self._begun, *(key for key in gone if self._is_deleted(key))])

    def _is_deleted(self, key: TopicPartition) -> bool:
        if key.topic_id in self._broker.metadata.topics_by_id:
            return False
        return self._broker.leftovers.is_deleted(key.topic_id)

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        """As in CopiedLog. What is of a deleted topic is below the log start, all of it."""
        if self._is_deleted(topic_partition):
            return OwnLog((), self._tier_end(topic_partition), NEVER)
        partition = self._member.log.partitions.get(topic_partition)
        begun = self._begun.get(topic_partition)
        if partition is None or begun is None:
            return OwnLog((), 0, NEVER)
        epochs, end = begun.epochs, int(partition.log_end_offset)
        is_newest = epochs and epochs[-1][0] == self._leader_epoch
        if end > begun.log_end and not is_newest:
            epochs = (*epochs, (int(self._leader_epoch), begun.log_end))
        start, is_emptied = self._log_start(topic_partition), self._is_emptied(topic_partition)
        return OwnLog(epochs, start, end, is_emptied, self._give_ups(topic_partition))

    def _log_start(self, key: TopicPartition) -> int:
        """Return what the tier needs nothing below of, durably."""
        durable, metadata = self._durable_starts.get(key, 0), self._metadata()
        if metadata is None or not self._is_limited(key):
            return durable
        partition, manifest = self._member.log.partitions[key], metadata.manifest(key)
        start = int(partition.log_start_offset)
        # The disks were freed up to there, so the tier's start has a life of its own.
        is_freed = first_offset(manifest, start) < start or start <= manifest.start_offset
        return self._tier_starts.get(key, 0) if is_freed else durable

    def _is_limited(self, key: TopicPartition) -> bool:
        return self._has_limits(key) and key not in self._whole

    def _has_limits(self, key: TopicPartition) -> bool:
        topic = self._broker.partitions.by_id.get(key.topic_id)
        return topic is not None and topic.local is not None

    def known(self, key: TopicPartition, manifest: Manifest) -> Manifest:
        """Return what counts of a partition in the tier, for readers."""
        partition = self._member.log.partitions.get(key)
        if partition is None or key not in self._whole or not self._has_limits(key):
            return manifest
        return manifest.above(int(partition.log_start_offset))

    def limited(self) -> list[TopicPartition]:
        """Return the partitions whose local limits count, as far as they were looked at."""
        return [key for key in self._begun if self._is_limited(key)]

    def raise_tier_start(self, key: TopicPartition, offset: int) -> None:
        """Ask that the tier keeps nothing below `offset`."""
        if offset > self._tier_starts.get(key, 0):
            self._tier_starts[key] = offset
            self.on_news()

    def _tier_end(self, key: TopicPartition) -> int:
        metadata = self._metadata()
        return 0 if metadata is None else metadata.manifest(key).end_offset

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        """As in CopiedLog; none where they have to be made first."""
        planned, self._planned = self._planned, None
        if planned is not None and planned[0] == ends and self._are_wanted(planned[1]):
            return planned[1]
        if not self._is_planning:
            self._plan(dict(ends), count_max)
        return ()

    def _are_wanted(self, plans: Sequence[Plan]) -> bool:
        wanted = set(self._wanted())
        return all(part.topic_partition in wanted for plan in plans for part in plan)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the records that may be copied and are not; of many, the first ones."""
        metadata = self._metadata()
        if metadata is None:
            return 0
        ends = {key: metadata.manifest(key).end_offset for key in self._begun}
        waiting = self._member.log.splitting.copies.waiting(ends, self._stable_ends())
        return sum(extent.batch_bytes for extents in waiting.values() for extent in extents)

    def _plan(self, ends: dict[TopicPartition, int], count_max: int) -> None:
        copies = self._member.log.splitting.copies
        begins = self._begins(ends)
        extents = copies.waiting(begins, self._stable_ends())
        if not extents:
            return

        def done(plans: Sequence[Plan] | None, error: PlatformError | None) -> None:
            self._is_planning = False
            if error is None and plans:
                self._planned = ends, plans
                self.on_news()

        self._is_planning = True
        copies.plan(extents, begins, count_max, self._object_bytes, done)

    def _begins(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return where copying goes on: the tier begins no partition below its log start."""
        metadata, begins = self._metadata(), dict(ends)
        for key in ends.keys() & self._begun.keys():
            if metadata is None or not metadata.manifest(key).runs:
                partition = self._member.log.partitions.get(key)
                start = 0 if partition is None else int(partition.log_start_offset)
                begins[key] = max(ends[key], start)
        return begins

    def mergeable_from(self, key: TopicPartition) -> int | None:
        """Return the local start of a partition; None: its runs are to stay as they are."""
        partition = self._member.log.partitions.get(key)
        topic = self._broker.partitions.by_id.get(key.topic_id)
        if partition is None or topic is None or key not in self._begun:
            return None
        return int(partition.log_start_offset) if self._is_copied(topic) else None

    def _stable_ends(self) -> dict[TopicPartition, int]:
        """Return up to where (exclusive) it is decided what the partitions to be copied have."""
        log, confirmed = self._member.log, self._member.confirm_position
        found = {}
        for key in self._wanted():
            if key in self._begun:
                partition = log.partitions[key]
                open_from = log.transactions.first_unstable(partition, confirmed)
                end = partition.log_end_offset if open_from is None else open_from.offset
                found[key] = int(end)
        return found

    async def build(self, plan: Plan) -> Image:
        """As in Source."""
        copies = self._member.log.splitting.copies
        image: Image = await outcome(lambda done: copies.build(plan, self._identity, done))
        return image


def _walk(
    log: EpochLog,
    partition: PartitionLog,
    done: EpochsFound,
) -> None:
    EpochWalk(log, partition, done)
