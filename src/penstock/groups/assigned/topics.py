"""The topics that a group's members subscribe to, and whether they have changed.

Source: KIP-848; KIP-1101 (a hash of the topics instead of their partition counts in a record).
"""

import hashlib
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from penstock.assignors.topic_facts import TopicFacts
from penstock.groups.assigned.group import NOT_COMPARED, AssignedGroup
from penstock.groups.cluster import Cluster

MEMBERS_TOGETHER = 10
HASHED_TOGETHER = 500
"""Members, or topics, looked at per unit of cost (portions.py)."""
COMPARE_MS = 1_000
"""How often a group is compared with topics that change."""

Found = Mapping[str, TopicFacts]


def is_to_be_compared(
    group: AssignedGroup[Any, Any], cluster: Cluster, now_ms: int, interval_ms: int
) -> bool:
    """Whether the cluster's topics have changed since the group was compared with them."""
    if cluster.version == group.topics_version:
        return False
    is_new = group.topics_version == NOT_COMPARED
    return is_new or now_ms - group.topics_checked_ms >= interval_ms


def find_topics(
    names: Iterable[str], cluster: Cluster
) -> Generator[int, None, dict[str, TopicFacts]]:
    """Return those that exist, in the order of their names."""
    found = {name: cluster.find(name) for name in sorted(names)}
    yield 1 + len(found) // MEMBERS_TOGETHER
    return {name: topic for name, topic in found.items() if topic is not None}


def topics_hash(facts: Iterable[tuple[str, TopicFacts]]) -> int:
    """Return a hash of topics, given in order: another one if an assignment may be another one."""
    steps = hash_in_steps(facts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            hashed: int = end.value
            return hashed


def hash_in_steps(facts: Iterable[tuple[str, TopicFacts]]) -> Generator[int, None, int]:
    """Return the same, some topics in a step: an expression may match tens of thousands."""
    digest = hashlib.blake2b(digest_size=8)
    for number, (name, topic) in enumerate(facts, start=1):
        racks = [sorted(some) for some in topic.racks]
        digest.update(repr((name, topic.topic_id, topic.partition_count, racks)).encode())
        if number % HASHED_TOGETHER == 0:
            yield HASHED_TOGETHER // MEMBERS_TOGETHER
    return int.from_bytes(digest.digest(), "big", signed=True)
