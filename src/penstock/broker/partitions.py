"""Which partitions this node hosts, by topic name and by topic id.

The registry follows the cluster image: a created topic opens its partitions in the log of their
replica set, a deleted one drops them. A look-up is one dictionary access and one list index; the
produce path looks up by the bytes of the name as they stand in the request and decodes nothing.
"""

from __future__ import annotations

from typing import Protocol

from penstock.base.ids import TopicId, TopicPartition
from penstock.broker.batch_rules import BatchRules, rules_of
from penstock.broker.replica_set import ReplicaSetMember
from penstock.controller.image import TopicImage
from penstock.storage.partition_log import PartitionLog


class FetchWaiter(Protocol):
    """A parked fetch that has to look again."""

    def on_readable(self) -> None: ...


class HostedPartition:
    """One partition with the log that holds it and the fetches that wait for its end to move."""

    __slots__ = ("is_dropped", "log", "member", "partition", "topic", "waiters")

    def __init__(
        self, topic: HostedTopic, partition: int, member: ReplicaSetMember, log: PartitionLog
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.member = member
        self.log = log
        self.waiters: dict[FetchWaiter, None] = {}
        """In the order in which they came; many consumers may wait on many partitions each."""
        self.is_dropped = False
        """Whether the topic was deleted; who still holds the partition must not use it."""

    def wake(self) -> None:
        """Let every parked fetch look again; those that go on waiting have registered anew."""
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.on_readable()


class HostedTopic:
    """A topic with its settings; `partitions[i]` is None where another node has it."""

    __slots__ = ("internal", "name", "name_bytes", "partitions", "rules", "settings", "topic_id")

    def __init__(self, image: TopicImage) -> None:
        self.name = image.name
        self.name_bytes = image.name.encode()
        self.topic_id = image.topic_id
        self.internal = image.internal
        self.settings = image.settings
        self.rules: BatchRules = rules_of(image.settings)
        self.partitions: list[HostedPartition | None] = []


class PartitionRegistry:
    """All hosted topics. Only `apply_topic` and `remove_topic` change it."""

    __slots__ = ("_members", "by_id", "by_name")

    def __init__(self, members: dict[int, ReplicaSetMember]) -> None:
        self._members = members
        self.by_name: dict[bytes, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}

    def apply_topic(self, image: TopicImage) -> HostedTopic:
        """Open a new topic, or take over more partitions or other settings of a known one."""
        topic = self.by_id.get(image.topic_id)
        if topic is None:
            topic = HostedTopic(image)
            self.by_id[image.topic_id] = topic
            self.by_name[topic.name_bytes] = topic
        topic.settings = image.settings
        topic.rules = rules_of(image.settings)
        for placed in image.partitions[len(topic.partitions) :]:
            member = self._members.get(placed.replica_set_id)
            if member is None:
                topic.partitions.append(None)
                continue
            log = member.log.open_partition(TopicPartition(image.topic_id, placed.partition))
            topic.partitions.append(HostedPartition(topic, placed.partition, member, log))
        return topic

    def remove_topic(self, topic_id: TopicId) -> HostedTopic | None:
        """Drop a deleted topic; fetches that wait for it are woken and see that it is gone."""
        topic = self.by_id.pop(topic_id, None)
        if topic is None:
            return None
        if self.by_name.get(topic.name_bytes) is topic:
            del self.by_name[topic.name_bytes]
        hosted = [partition for partition in topic.partitions if partition is not None]
        for partition in hosted:
            partition.member.log.drop_partition(partition.log.topic_partition)
            partition.is_dropped = True
            partition.wake()
        return topic

    def find(self, topic_name: str, partition: int) -> HostedPartition | None:
        """Look up by name; None where the topic or partition is not here."""
        return hosted_partition(self.by_name.get(topic_name.encode()), partition)

    def find_by_id(self, topic_id: bytes, partition: int) -> HostedPartition | None:
        """Look up by topic id; None where the topic or partition is not here."""
        return hosted_partition(self.by_id.get(topic_id), partition)


def hosted_partition(topic: HostedTopic | None, partition: int) -> HostedPartition | None:
    """Return a topic's partition; None where the topic or the partition is not here."""
    if topic is None or not 0 <= partition < len(topic.partitions):
        return None
    return topic.partitions[partition]
