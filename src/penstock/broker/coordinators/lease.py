"""Whether a coordinator may answer from memory: only while no other can have taken its place.

A coordinator that is partitioned from its replicas learns late that another has taken its place.
What it writes is never confirmed, so that no commit is lost; but its state in memory may be stale,
or may hold commits that were never confirmed. It does not answer from memory once its lease as
master has expired.

Source: the read lease of the set (ADR 0026); Kafka has none, and its old coordinator still answers.
"""

from penstock.base.ids import CoordinatorEpoch
from penstock.broker.broker import Broker
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.partitions import HostedPartition
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.replication.errors import NotMaster


def knows_group(broker: Broker, group_id: str) -> bool:
    """Whether no other coordinator of the group can be active by now.

    An id that is too long for a group has none, and is not looked up: that would take 2 ms.
    """
    if len(group_id) > broker.groups.config.group_id_bytes_max:
        return True
    return knows(broker, INTERNAL_TOPIC, broker.groups.partition_of(group_id))


def group_partition(broker: Broker, group_id: str) -> HostedPartition | None:
    """Return the partition of the internal topic that has the group; None if it is not led here."""
    hosted = broker.partitions.find(INTERNAL_TOPIC, broker.groups.partition_of(group_id))
    return hosted if hosted is not None and hosted.member.is_master else None


class JournalMasterships:
    """Who leads the partitions of an internal topic: `Masterships` of a coordinator."""

    __slots__ = ("_broker", "_journal")

    def __init__(self, broker: Broker, journal: InternalTopicJournal) -> None:
        self._broker = broker
        self._journal = journal

    def epoch_of(self, partition: int) -> CoordinatorEpoch:
        """Return the leader epoch of the partition; -1 if it is not here."""
        return CoordinatorEpoch(self._journal.leader_epoch_of(partition))

    def is_certain(self, partition: int) -> bool:
        """Whether nobody else can coordinate the partition by now."""
        is_named = is_named_master(self._broker, self._journal.topic, partition)
        return is_named and knows(self._broker, self._journal.topic, partition)


def is_named_master(broker: Broker, topic: str, partition: int) -> bool:
    """Whether the metadata here names this mastership too: it may know of the next one already.

    So whatever else that metadata has when this is true, the next master's metadata has, too:
    records are applied in one order.
    """
    hosted = broker.partitions.find(topic, partition)
    if hosted is None:
        return True  # as below
    member = hosted.member
    named = broker.metadata.replica_sets.get(member.replica_set_id)
    if named is None:
        return False
    return (named.master, named.leader_epoch) == (broker.broker_id, member.leader_epoch)


def knows(broker: Broker, topic: str, partition: int) -> bool:
    """Whether nobody else can coordinate what is in this partition of an internal topic."""
    hosted = broker.partitions.find(topic, partition)
    if hosted is None:
        return True  # the coordinator itself answers that it is not the one
    try:
        hosted.member.check_readable()
    except NotMaster:
        return False
    return True
