"""Pools of topics, and what has been given to whom: what assignors are made of.

A pool is the topics that the same members subscribe to: in it members are to have equally much.

Source: Kafka, the assignment builders of group-coordinator, which go by topic instead.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

from penstock.assignors.partitions import Partitions
from penstock.assignors.topic_facts import TopicFacts

TOGETHER = 50
"""Partitions assigned per step, about 2 us each."""
COST = 10
"""The cost of so many partitions (portions.py)."""
LOOKED_TOGETHER, TOPIC_COST = 2_000, 8
"""Subscriptions in which topics are looked for per step, about 50 ns each; a topic takes eight."""


class MemberWish(NamedTuple):
    """A member as assignors see it; `had` is its part of the target before."""

    topics: frozenset[bytes]
    rack: str | None
    had: Partitions


Members = Mapping[str, MemberWish]
Topics = Mapping[bytes, TopicFacts]
Made = Generator[int, None, dict[str, Partitions]]
"""Steps, and in the end the partitions of every member."""


class Pool(NamedTuple):
    """Topics that the same members subscribe to."""

    members: Sequence[str]
    topic_ids: Sequence[bytes]


def pools_of(members: Members, topics: Topics) -> Generator[int, None, list[Pool]]:
    """Return the pools, those of the fewest members first: they have the least choice.

    In steps: thousands of topics may be looked for in as many subscriptions as there are members.
    """
    by_subscription: dict[frozenset[bytes], list[str]] = {}
    for member_id, wish in members.items():
        by_subscription.setdefault(wish.topics, []).append(member_id)
    pools: dict[tuple[int, ...], list[bytes]] = {}
    spent = 0
    for topic_id in sorted(topics):
        readers = tuple(n for n, wanted in enumerate(by_subscription) if topic_id in wanted)
        pools.setdefault(readers, []).append(topic_id)
        spent += TOPIC_COST + len(by_subscription)
        if spent >= LOOKED_TOGETHER:
            spent = 0
            yield COST
    groups = [*by_subscription.values()]
    made: list[Pool] = []
    for readers, topic_ids in pools.items():
        if readers:
            made.append(Pool(sorted(one for at in readers for one in groups[at]), topic_ids))
            spent += TOPIC_COST + len(made[-1].members)
        if spent >= LOOKED_TOGETHER:
            spent = 0
            yield COST
    return sorted(made, key=lambda pool: (len(pool.members), pool.topic_ids))


class Given:
    """What has been given to whom so far."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.given: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
        self.counts = dict.fromkeys(members, 0)

    def give(self, member_id: str, topic_id: bytes, number: int) -> None:
        self.given[member_id].setdefault(topic_id, set()).add(number)
        self.counts[member_id] += 1

    def take(self, member_id: str, topic_id: bytes, number: int) -> None:
        self.given[member_id][topic_id].remove(number)
        self.counts[member_id] -= 1

    def made(self) -> Made:
        made: dict[str, Partitions] = {}
        for number, (member_id, given) in enumerate(self.given.items()):
            made[member_id] = {topic_id: frozenset(ns) for topic_id, ns in given.items() if ns}
            if number % COST == 0:
                yield 1 + self.counts[member_id] * COST // TOGETHER
        return made


def most_first(given: Given, pool: Pool) -> list[str]:
    """Return the members of a pool, those that had most of it first: they keep the odd ones."""
    topic_ids = frozenset(pool.topic_ids)
    had = {
        member_id: sum(
            len(numbers)
            for topic_id, numbers in given.members[member_id].had.items()
            if topic_id in topic_ids
        )
        for member_id in pool.members
    }
    return sorted(pool.members, key=lambda member_id: (-had[member_id], member_id))
