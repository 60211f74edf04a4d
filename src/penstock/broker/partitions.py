"""The partitions that this node hosts, by topic name and by topic id.

The registry follows the cluster image. A partition is opened, in the log of its replica set, when
it is first looked up (ADR 0077): a topic may have 10,000, and to open them all as it is created
holds the loop for 50 ms. A look-up is one dictionary access and one list index; the produce path
looks up by the bytes of the name as they are in the request and decodes nothing.

    look-up of a known topic gives None    another broker has it: the image names the master
    member is a slave here                 the partition is open, and serves slave reads only
    internal topic                         open from the beginning, also as a member is added
    log reopened                           `reopen` binds the partitions to the new objects
    topic deleted                          no partition is opened any more; those that are open, and
                                           what the logs hold, are let go in portions (removals.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from penstock.base.ids import (
    NO_LEADER_EPOCH,
    LeaderEpoch,
    PartitionId,
    Position,
    ReplicaSetId,
    TopicId,
    TopicPartition,
)
from penstock.base.ports import Scheduler
from penstock.broker.append.batch_rules import BatchRules, rules_of
from penstock.broker.append.guard import Guard
from penstock.broker.errors import UnknownPartition
from penstock.broker.fetch.wakes import FetchWaiter, Wake, Wakes
from penstock.broker.removals import Removals
from penstock.controller.metadata.image import TopicImage
from penstock.controller.topic_config.local import local_limits
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.errors import FencedLeaderEpoch, NotMaster, UnknownLeaderEpoch
from penstock.storage.errors import LogBusy
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.transactions import TransactionEnd


class HostedPartition:
    """One partition with its log and the fetches that wait for its end to move."""

    __slots__ = (
        "_wake",
        "_wakes",
        "guards",
        "is_dropped",
        "log",
        "member",
        "next_fetch_offset",
        "on_marker",
        "open_numbers",
        "partition",
        "seen_high_watermark",
        "topic",
        "trusted_from_offset",
        "trusted_from_position",
        "waiters",
    )

    def __init__(
        self,
        topic: HostedTopic,
        partition: int,
        member: ReplicaSetMember,
        log: PartitionLog,
        wakes: Wakes,
    ) -> None:
        self._wakes = wakes
        self._wake: Wake | None = None
        """The fetches that were woken and have not looked yet."""
        self.topic = topic
        self.partition = partition
        self.member = member
        self.log = log
        self.waiters: dict[FetchWaiter, None] = {}
        """In order of arrival; many consumers may wait on many partitions each."""
        self.guards: dict[int, Guard] = {}
        """By producer id: batches that wait for their coordinator (append/transactional.py)."""
        self.open_numbers: dict[int, tuple[int, int]] = {}
        """By producer id, of transactions that were opened here: leader epoch, and number among
        those of their transactional id (append/markers.py)."""
        self.on_marker: Callable[[TransactionEnd], None] | None = None
        """Of an internal partition that a coordinator has loaded: it hears of each marker that is
        appended, at once."""
        self.is_dropped = False
        """Whether the topic was deleted; the partition must not be used any more."""
        self.seen_high_watermark = -1
        """At a slave: the lowest end that a parked fetch has seen. Every move of the confirm
        position may concern the partition there, and most do not."""
        self.next_fetch_offset = -1
        """Offset at which a fetch that begins with this partition is expected (next_fetch.py)."""
        self.trusted_from_offset = 0
        """Offset below which records are not expected in the page cache (slave_reads.py)."""
        self.trusted_from_position = 0

    def check_still_led(self, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> None:
        """Check that a partition that was found here some time ago is led here.

        Raises UnknownPartition, FencedLeaderEpoch, UnknownLeaderEpoch, NotMaster.
        """
        if self.is_dropped:
            raise UnknownPartition
        check_leader_epoch(self.member, leader_epoch)
        if self.member.role is not Role.MASTER:
            raise NotMaster(f"broker {self.member.master_id} is master of this partition")

    def park(self, waiter: FetchWaiter, high_watermark: int) -> None:
        """Add a fetch that has seen the partition up to there."""
        if not self.waiters or high_watermark < self.seen_high_watermark:
            self.seen_high_watermark = high_watermark
        self.waiters[waiter] = None
        self.watch()

    def leave(self, waiter: FetchWaiter) -> None:
        """Remove a waiter. The last one frees the dict, which would otherwise keep its size."""
        self.waiters.pop(waiter, None)
        if not self.waiters:
            self.waiters.clear()
        if self._wake is not None:
            self._wake.leave(waiter)

    def wake(self) -> None:
        """Let every parked fetch read again; those that keep waiting register again."""
        if self.waiters and self._is_unmoved_at_slave():
            self.watch()
            return
        self._look_again(is_changed=False)

    def watch(self) -> None:
        """Have the partition woken when more of it is readable, as a master's appends do too."""
        member, log = self.member, self.log
        if member.role is Role.SLAVE:
            member.watch(Position(member.confirm_position + 1), self)
        elif log.last_end_position > member.confirm_position:
            member.watch(log.last_end_position, self)

    def _is_unmoved_at_slave(self) -> bool:
        member = self.member
        return (
            member.role is Role.SLAVE
            and not member.log.is_busy
            and member.high_watermark(self.log) == self.seen_high_watermark
        )

    def changed(self) -> None:
        """Let every parked fetch read again, even if there are no new records."""
        self._look_again(is_changed=True)

    def _look_again(self, *, is_changed: bool) -> None:
        waiters, self.waiters = self.waiters, {}
        if self._wake:
            self._wake.add(waiters, is_changed=is_changed)
        elif waiters:
            wake = self._wakes.begin(waiters, is_changed=is_changed)
            self._wake = wake if wake else None


class HostedTopic:
    """A topic with its settings, and those of its partitions here that were looked up.

    `partitions[n]` is None if another node has it or nobody has asked for it; see `find`.
    """

    __slots__ = (
        "_open",
        "internal",
        "is_removed",
        "local",
        "name",
        "name_bytes",
        "partitions",
        "placed",
        "rules",
        "settings",
        "topic_id",
    )

    def __init__(self, image: TopicImage, open_partition: Open) -> None:
        self._open = open_partition
        self.name = image.name
        self.name_bytes = image.name.encode()
        self.topic_id = image.topic_id
        self.internal = image.internal
        self.settings = image.settings
        self.local = local_limits(image.configs)
        """What stays on the disks of a topic in the tier; None: all that is kept."""
        self.rules: BatchRules = rules_of(image.settings)
        self.placed: tuple[ReplicaSetId, ...] = ()
        """The replica set of each partition."""
        self.partitions: list[HostedPartition | None] = []
        self.is_removed = False
        """Whether the topic was deleted; nothing of it is opened any more."""

    def find(self, partition: int) -> HostedPartition | None:
        """Return a partition, which is opened if need be; None if it is not here."""
        if not 0 <= partition < len(self.partitions):
            return None
        hosted = self.partitions[partition]
        return self._open(self, partition) if hosted is None else hosted


Open = Callable[[HostedTopic, int], HostedPartition | None]
"""Opens a partition that exists; None if it is not here."""


class PartitionRegistry:
    """All hosted topics. Modified by its own methods only, and by `HostedTopic.find`."""

    __slots__ = ("_members", "_of_set", "_removals", "_wakes", "by_id", "by_name")

    def __init__(
        self,
        members: dict[ReplicaSetId, ReplicaSetMember],
        scheduler: Scheduler,
        wakes: Wakes,
    ) -> None:
        """`members` are the open ones by set; the owner changes them."""
        self._members = members
        self._wakes = wakes
        self._removals = Removals(scheduler)
        self._of_set: dict[int, dict[TopicPartition, HostedPartition]] = {}
        self.by_name: dict[bytes, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}

    def apply_topic(self, image: TopicImage) -> HostedTopic:
        """Adopt a new topic, or new partitions or settings of a known one."""
        topic = self.by_id.get(image.topic_id)
        if topic is None:
            topic = HostedTopic(image, self._open)
            self.by_id[image.topic_id] = topic
            self.by_name[topic.name_bytes] = topic
        topic.settings = image.settings
        topic.local = local_limits(image.configs)
        topic.rules = rules_of(image.settings)
        topic.placed = image.partitions.set_ids
        topic.partitions += [None] * (len(topic.placed) - len(topic.partitions))
        if topic.internal:
            self._open_all(topic)
        return topic

    def remove_topic(self, topic_id: TopicId) -> HostedTopic | None:
        """Drop a deleted topic; parked fetches are woken and answer that it is gone.

        It is gone for every look-up, and none of its partitions is used any more. Those behind the
        first ones are taken out of the logs, and their fetches are woken, in turns to come.
        """
        topic = self.by_id.pop(topic_id, None)
        if topic is None:
            return None
        if self.by_name.get(topic.name_bytes) is topic:
            del self.by_name[topic.name_bytes]
        topic.is_removed = True
        for hosted in topic.partitions:
            if hosted is not None:
                hosted.is_dropped = True
        self._removals.begin(self._let_go(topic))
        return topic

    def _let_go(self, topic: HostedTopic) -> Iterator[None]:
        """Let one partition go at each step; members and logs may change between two of them."""
        for at, set_id in enumerate(topic.placed):
            hosted = topic.partitions[at]
            member = self._members.get(set_id) if hosted is None else hosted.member
            if member is not None:
                with suppress(LogBusy):  # dropped at the next promotion, as all unknown topics are
                    member.log.drop_partition(TopicPartition(topic.topic_id, PartitionId(at)))
            if hosted is not None:
                self._forget(hosted)
                hosted.changed()
            yield

    def add_member(self, member: ReplicaSetMember) -> None:
        """Open what internal topics have on the member's set; what others have is looked up."""
        assert self._members.get(member.replica_set_id) is member, member.replica_set_id
        for topic in self.by_id.values():
            if topic.internal:
                self._open_all(topic)

    def remove_member(self, replica_set_id: int) -> None:
        """Close the partitions of a set whose member has resigned and is removed."""
        for hosted in self._of_set.pop(replica_set_id, {}).values():
            hosted.topic.partitions[hosted.partition] = None
            hosted.changed()

    def of_set(self, replica_set_id: int) -> tuple[HostedPartition, ...]:
        """All open partitions of a replica set."""
        return tuple(self._of_set.get(replica_set_id, {}).values())

    def reopen(self, member: ReplicaSetMember) -> None:
        """Bind the partitions to the objects of a log that was reopened after truncation."""
        hosted_ones = self.of_set(member.replica_set_id)
        for hosted in hosted_ones:
            hosted.log = member.log.open_partition(hosted.log.topic_partition)
            hosted.trusted_from_offset = hosted.trusted_from_position = 0
        self.add_member(member)
        for hosted in hosted_ones:
            hosted.changed()

    def find(self, topic_name: str, partition: int) -> HostedPartition | None:
        """Look up by name; None if the topic or partition is not here."""
        return hosted_partition(self.by_name.get(topic_name.encode()), partition)

    def led(
        self, topic_name: str, partition: int, leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    ) -> HostedPartition:
        """Return a partition that this broker leads.

        `leader_epoch` is the epoch known to the client, -1 for no check; it is checked first, so
        that a client learns whether it or this broker is behind.

        Raises UnknownPartition, FencedLeaderEpoch, UnknownLeaderEpoch, NotMaster.
        """
        topic = self.by_name.get(topic_name.encode())
        if topic is None or not 0 <= partition < len(topic.placed):
            raise UnknownPartition
        hosted = hosted_partition(topic, partition)
        if hosted is None:
            raise NotMaster("another broker carries this partition")
        hosted.check_still_led(leader_epoch)
        return hosted

    def drop_unknown(self, member: ReplicaSetMember, known: Iterable[TopicId]) -> int:
        """Drop the partitions of topics that are not `known` from the member's log; return how
        many.

        Only for a new master: its image is as new as its mastership, and everything in its log was
        written by earlier masters. A slave's image may lag behind its log. So may that of a master
        that resumes after a restart, whose newest entries of the metadata log need not be on disk.
        """
        assert member.role is Role.MASTER, member.replica_set_id
        assert not member.has_resumed, member.replica_set_id
        ids = frozenset(known)
        gone = [partition for partition in member.log.partitions if partition.topic_id not in ids]
        for topic_partition in gone:
            member.log.drop_partition(topic_partition)
        return len(gone)

    def _open_all(self, topic: HostedTopic) -> None:
        """Open an internal topic, of at most 1,000 partitions.

        Its coordinator goes by which partitions are open here.
        """
        for at in range(len(topic.partitions)):
            topic.find(at)

    def _open(self, topic: HostedTopic, partition: int) -> HostedPartition | None:
        """Open a partition in the log of its set; None if that has no member here.

        None too once the topic is deleted: a request may have found the topic before it was. And
        while the log is busy, until it is not.
        """
        set_id = topic.placed[partition]
        member = self._members.get(set_id)
        if member is None or topic.is_removed:
            return None
        topic_partition = TopicPartition(topic.topic_id, PartitionId(partition))
        try:
            log = member.log.open_partition(topic_partition)
        except LogBusy:
            return None
        hosted = HostedPartition(topic, partition, member, log, self._wakes)
        topic.partitions[partition] = hosted
        self._of_set.setdefault(set_id, {})[topic_partition] = hosted
        return hosted

    def _forget(self, hosted: HostedPartition) -> None:
        of_set = self._of_set.get(hosted.member.replica_set_id, {})
        of_set.pop(hosted.log.topic_partition, None)


def check_leader_epoch(member: ReplicaSetMember, requested: int) -> None:
    """Refuse a client that uses another leader epoch; -1 skips the check (KIP-320)."""
    if requested < 0 or requested == member.leader_epoch:
        return
    if requested < member.leader_epoch:
        raise FencedLeaderEpoch(requested, member.leader_epoch)
    raise UnknownLeaderEpoch(requested, member.leader_epoch)


def hosted_partition(topic: HostedTopic | None, partition: int) -> HostedPartition | None:
    """Return a topic's partition; None if the topic or the partition is not here."""
    return None if topic is None else topic.find(partition)
