"""Who is to have which partitions in a share group: the assignor `simple`.

    sharing   each partition of a pool goes to equally many members: as few as give every member one
    balance   counts differ by one at most among the members of a pool
    sticky    what a member has stays its own as far as the counts allow

It is pure: from members, topics and the target before it makes the next target. With as many
partitions as members, or more, each partition has one member. Racks count for nothing, as in Kafka.

Source: KIP-932, "Assignment"; Kafka, SimpleHomogeneousAssignmentBuilder.java and
SimpleHeterogeneousAssignmentBuilder.java. Kafka accepts a slight imbalance where no member takes
what is left; here a partition moves. With several subscriptions Kafka balances each topic by
itself; here topics of the same members are balanced together.
"""

import heapq
from collections.abc import Sequence

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

NAME = "simple"

_Partition = tuple[bytes, int]


def simple(members: Members, topics: Topics) -> Made:
    """Return who shares what; see the module for the order of the rules."""
    given = Given(members)
    yield COST
    pools = yield from pools_of(members, topics)
    for pool in pools:
        yield from _PoolShares(given, pool, topics).share_out()
    return (yield from given.made())


class _PoolShares:
    """How one pool is shared out."""

    def __init__(self, given: Given, pool: Pool, topics: Topics) -> None:
        self._given = given
        self._pool = pool
        self._partitions = [
            (topic_id, number)
            for topic_id in pool.topic_ids
            for number in range(topics[topic_id].partition_count)
        ]
        self._sharers = dict.fromkeys(self._partitions, 0)
        self._counts = dict.fromkeys(pool.members, 0)

    def share_out(self) -> Steps:
        partitions, members = len(self._partitions), len(self._pool.members)
        yield 1 + (partitions + members) // TOGETHER
        if not partitions:
            return
        sharing = -(-members // partitions)
        yield from self._keep(sharing, *divmod(sharing * partitions, members))
        yield from self._give(sharing)
        yield from self._level()

    def _keep(self, sharing: int, least: int, more: int) -> Steps:
        """Let members keep what they had; `more` of them may have one above `least`."""
        for member_id in most_first(self._given, self._pool):
            room, kept = least + (more > 0), 0
            for topic_id, numbers in sorted(self._given.members[member_id].had.items()):
                for number in sorted(numbers):
                    if kept == room:
                        break
                    if self._sharers.get((topic_id, number), sharing) < sharing:
                        self._put(member_id, (topic_id, number))
                        kept += 1
            more -= kept > least
            yield 1 + kept // COST

    def _give(self, sharing: int) -> Steps:
        """Give each partition that has too few members to those that have least."""
        heap = [(count, member_id) for member_id, count in self._counts.items()]
        heapq.heapify(heap)
        spent = 0
        for one in self._partitions:
            passed: list[tuple[int, str]] = []
            while self._sharers[one] < sharing:
                count, member_id = heapq.heappop(heap)
                is_new = not self._has(member_id, one)
                if is_new:
                    self._put(member_id, one)
                passed.append((count + is_new, member_id))
            for entry in passed:
                heapq.heappush(heap, entry)
            spent += 1 + len(passed)
            if spent >= TOGETHER:
                yield spent * COST // TOGETHER
                spent = 0

    def _level(self) -> Steps:
        """Move partitions from who has most to who has least, until counts differ by one at most.

        Who has more has a partition that the other has not. Each move brings two counts closer.
        """
        cost = 1 + len(self._counts) // TOGETHER
        while True:
            order: Sequence[str] = sorted(self._counts, key=lambda one: (self._counts[one], one))
            least, most = order[0], order[-1]
            yield cost
            if self._counts[most] - self._counts[least] < 2:
                return
            moved = next(
                (topic_id, number)
                for topic_id in self._pool.topic_ids
                for number in sorted(self._given.given[most].get(topic_id, ()))
                if not self._has(least, (topic_id, number))
            )
            self._given.take(most, *moved)
            self._counts[most] -= 1
            self._sharers[moved] -= 1
            self._put(least, moved)

    def _has(self, member_id: str, one: _Partition) -> bool:
        return one[1] in self._given.given[member_id].get(one[0], ())

    def _put(self, member_id: str, one: _Partition) -> None:
        self._given.give(member_id, *one)
        self._counts[member_id] += 1
        self._sharers[one] += 1
