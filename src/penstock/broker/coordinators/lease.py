"""Whether a coordinator may say what a group has: while no other one can have taken commits.

A coordinator that was cut off from its replicas learns late that another took its place. What it
writes is never confirmed, so that no commit is lost; but what it answers from memory may be old, or
was never there. It answers nothing from memory any more once its lease as a master is over.

Source: the read lease of the set (ADR 0026); Kafka has none, and its old coordinator answers.
"""

from penstock.broker.broker import Broker
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.replication.errors import NotMaster


def knows_group(broker: Broker, group_id: str) -> bool:
    """Whether no other coordinator of the group can be at work by now."""
    partition = broker.groups.partition_of(group_id)
    hosted = broker.partitions.find(INTERNAL_TOPIC, partition)
    if hosted is None:
        return True  # the coordinator says itself that it is none
    try:
        hosted.member.check_readable()
    except NotMaster:
        return False
    return True
