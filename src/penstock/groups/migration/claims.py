"""What each member of a classic group may be reading, for a group that becomes one of KIP-848.

    assignment of the last generation     what the leader gave it
    owned partitions of its last join     what it said it reads (incremental assignors)

The coordinator of a classic group does not know who reads what: between two generations members
keep what they had. So all of both counts as had by the member, until it joins again: nobody else
gets it earlier. Of two members that claim one partition, the leader's assignment decides, then the
later generation.

A partition that is not there any more, of a deleted topic or of one that was made again with fewer,
is had by nobody, in either protocol: who has it could be told to give it up, and nobody waits.

Source: Kafka, ConsumerGroup.fromClassicGroup, which counts the assignment alone: a partition that a
member is about to give up would be given away at once. KIP-429, KIP-792.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.assignors.partitions import Partitions
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.classic.member import Member
from penstock.groups.cluster import Cluster
from penstock.groups.migration.consumer_protocol import (
    Assignment,
    Named,
    Subscription,
    read_assignment,
    read_subscription,
)


class Claims:
    """Partitions that are claimed, each by one member."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._taken: dict[bytes, set[int]] = {}
        self._of: dict[str, dict[bytes, frozenset[int]]] = {}

    def claim(self, member_id: str, partitions: Named) -> None:
        """Let a member have those that nobody has claimed; what has gone is left out."""
        mine = self._of.setdefault(member_id, {})
        for topic_id, numbers in with_ids(partitions, self._cluster).items():
            taken = self._taken.setdefault(topic_id, set())
            free = numbers - taken
            if free:
                taken |= free
                mine[topic_id] = mine.get(topic_id, frozenset()) | free

    def of(self, member_id: str) -> Partitions:
        """Return what a member has."""
        return self._of.get(member_id, {})


class NamedTopic(NamedTuple):
    """A topic that exists."""

    name: str
    partition_count: int


def with_ids(partitions: Named, cluster: Cluster) -> Partitions:
    """Return partitions by topic id; those that do not exist are left out."""
    found = ((cluster.find(name), numbers) for name, numbers in partitions.items())
    there = (
        (topic.topic_id, existing(numbers, topic.partition_count))
        for topic, numbers in found
        if topic is not None
    )
    return {topic_id: numbers for topic_id, numbers in there if numbers}


def names_of(topics: Iterable[str], cluster: Cluster) -> Mapping[bytes, NamedTopic]:
    """Return topics by id; those that do not exist are left out."""
    found = ((name, cluster.find(name)) for name in topics)
    return {
        topic.topic_id: NamedTopic(name, topic.partition_count)
        for name, topic in found
        if topic is not None
    }


def with_names(partitions: Partitions, names: Mapping[bytes, NamedTopic]) -> Named:
    """Return partitions by name; those that do not exist, or without a name, are left out."""
    found = (
        (names[topic_id], numbers) for topic_id, numbers in partitions.items() if topic_id in names
    )
    there = ((topic.name, existing(numbers, topic.partition_count)) for topic, numbers in found)
    return {name: numbers for name, numbers in there if numbers}


def existing(numbers: frozenset[int], partition_count: int) -> frozenset[int]:
    """Return those partitions that a topic has: mostly all of them."""
    if numbers and min(numbers) >= 0 and max(numbers) < partition_count:
        return numbers
    return frozenset(one for one in numbers if 0 <= one < partition_count)


def protocol_of(group: Group) -> str | None:
    """Return the protocol whose metadata all members have: between two generations, the next."""
    if group.state is GroupState.PREPARING and group.members:
        return group.choose_protocol()
    return group.protocol_name


def settled_members(group: Group) -> Iterator[Member]:
    """Yield the members that live on; those in no generation yet join anew, as new members."""
    return (member for member in [*group.members.values()] if not member.is_new)


def said_by(member: Member, protocol_name: str | None) -> tuple[Subscription, Assignment]:
    """Return what a member asks for and what it was given. Raises MalformedRecord."""
    subscription = read_subscription(member.metadata_for(protocol_name))
    return subscription, read_assignment(member.assignment)
