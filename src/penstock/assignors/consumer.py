"""Who is to have which partitions: the assignors `uniform` and `range`.

Both are pure: from members, topics and the target before they make the next target. Both are
sticky: what a member has stays its own as far as the counts allow.

    uniform   counts differ by one at most among members of the same subscription; then partitions
              go where they were, then to members in a rack of a replica, then to who has least
    range     of each topic a run of partitions for each member, in the same order of members for
              every topic, so that topics with equal counts are assigned alike

A change of racks alone moves nothing that has an owner.

Source: KIP-848 (uniform, range), KIP-881 (racks), KIP-54 (sticky). Kafka's own assignors on the
server know no racks.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.assignors.pools import (
    COST,
    TOGETHER,
    Given,
    Made,
    Members,
    Pool,
    Topics,
    most_first,
    pools_of,
)
from penstock.coordinator.portions import Steps


def uniform(members: Members, topics: Topics) -> Made:
    """Return equal shares; see the module for the order of the rules."""
    shares = Given(members)
    pools = yield from pools_of(members, topics)
    yield COST
    for pool in pools:
        yield from _fill(shares, pool, topics)
    yield from _level(shares, pools)
    return (yield from shares.made())


def range_(members: Members, topics: Topics) -> Made:
    """Return runs of partitions of each topic."""
    made: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    first = _first_partitions(members)
    for topic_id in sorted(topics):
        count = topics[topic_id].partition_count
        order = sorted(
            (member_id for member_id, wish in members.items() if topic_id in wish.topics),
            key=lambda member_id: (first[member_id], member_id),
        )
        at = 0
        for number, member_id in enumerate(order):
            size = count // len(order) + (number < count % len(order))
            if size:
                made[member_id][topic_id] = frozenset(range(at, at + size))
            at += size
        yield 1 + len(order) // COST
    return dict(made)


ASSIGNORS: Mapping[str, Callable[[Members, Topics], Made]] = {"uniform": uniform, "range": range_}
DEFAULT_ASSIGNOR = "uniform"


def _first_partitions(members: Members) -> dict[str, tuple[bool, int]]:
    """Return the order of members: those with partitions by their lowest one, then the others."""
    return {
        member_id: (not wish.had, min((min(ns) for ns in wish.had.values()), default=0))
        for member_id, wish in members.items()
    }


def _fill(shares: Given, pool: Pool, topics: Topics) -> Steps:
    """Give the partitions of a pool: first those that stay, then the others."""
    left = {topic_id: set(range(topics[topic_id].partition_count)) for topic_id in pool.topic_ids}
    total = sum(map(len, left.values())) + sum(shares.counts[one] for one in pool.members)
    least, more = divmod(total, len(pool.members))
    yield 1 + total // TOGETHER
    order = most_first(shares, pool)
    yield 1 + len(order) // COST
    for member_id in order:
        room = least + (more > 0)
        kept = _keep(shares, member_id, left, room)
        more = max(0, more - (shares.counts[member_id] > least))
        yield 1 + kept // COST
    open_ = [(topic_id, number) for topic_id in pool.topic_ids for number in sorted(left[topic_id])]
    yield from _give_open(shares, pool, topics, open_)


def _keep(shares: Given, member_id: str, left: Mapping[bytes, set[int]], room: int) -> int:
    """Let a member keep what it had, up to `room` in all; return how many it keeps."""
    kept = 0
    for topic_id, numbers in sorted(shares.members[member_id].had.items()):
        for number in sorted(numbers) if topic_id in left else ():
            if shares.counts[member_id] >= room:
                return kept
            if number in left[topic_id]:
                left[topic_id].remove(number)
                shares.give(member_id, topic_id, number)
                kept += 1
    return kept


def _give_open(
    shares: Given, pool: Pool, topics: Topics, open_: Iterable[tuple[bytes, int]]
) -> Steps:
    """Give each partition to who has least; of several, to one in a rack of a replica."""
    everyone = Least(shares, pool.members)
    in_rack: dict[str, Least] = {}
    for rack in sorted({shares.members[one].rack or "" for one in pool.members} - {""}):
        in_rack[rack] = Least(
            shares, [one for one in pool.members if shares.members[one].rack == rack]
        )
    for number, (topic_id, partition) in enumerate(open_):
        racks = topics[topic_id].racks
        near = racks[partition] if partition < len(racks) else frozenset()
        best = everyone.peek()
        for rack in sorted(near & in_rack.keys()):
            other = in_rack[rack].peek()
            if shares.counts[other] <= shares.counts[best]:
                best = other
                break
        shares.give(best, topic_id, partition)
        if number % TOGETHER == 0:
            yield COST


class Least:
    """Finds the member that has least, the first by id of several. Counts may grow meanwhile."""

    def __init__(self, shares: Given, members: Iterable[str]) -> None:
        self._shares = shares
        self._heap = [(shares.counts[member_id], member_id) for member_id in members]
        heapq.heapify(self._heap)

    def peek(self) -> str:
        while True:
            count, member_id = self._heap[0]
            now = self._shares.counts[member_id]
            if count == now:
                return member_id
            heapq.heapreplace(self._heap, (now, member_id))


def _level(shares: Given, pools: Sequence[Pool]) -> Steps:
    """Move partitions from who has most to who has least, where both subscribe to the topic.

    One pool is level already. Each move brings two counts closer, so there is an end to it.
    """
    is_moving = len(pools) > 1
    while is_moving:
        is_moving = False
        for pool in pools:
            cost = 1 + len(pool.members) // COST
            while _move_one(shares, pool):
                is_moving = True
                yield cost
            yield cost


def _move_one(shares: Given, pool: Pool) -> bool:
    least = min(pool.members, key=lambda one: (shares.counts[one], one))
    for most in sorted(pool.members, key=lambda one: (-shares.counts[one], one)):
        if shares.counts[most] - shares.counts[least] < 2:
            return False
        for topic_id in pool.topic_ids:
            if numbers := shares.given[most].get(topic_id):
                number = max(numbers)
                shares.take(most, topic_id, number)
                shares.give(least, topic_id, number)
                return True
    return False
