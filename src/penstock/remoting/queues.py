"""Queues of a topic: partitions, numbered within their replica set as remoting clients number them.

    partition  0   1   2   3   4        clients count queues from 0 for each broker name
    set        7   9   7   7   9        broker name `set-7`: partitions 0, 2, 3 are queues 0, 1, 2
    queue      0   0   1   2   1        broker name `set-9`: partitions 1, 4 are queues 0, 1

A replica set is what RocketMQ calls a broker: it keeps its name when its master changes. New
partitions are the last ones of their topic, so a queue keeps its number.

Source: ours, docs/adr/0122; RocketMQ `MessageQueue` (topic, broker name, queue id).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.base.ids import ReplicaSetId

_NAME: Final = "set-"
_DIGITS_MAX: Final = 10


class Queue(NamedTuple):
    """A queue as clients name it, apart from its topic."""

    set_id: ReplicaSetId
    queue_id: int


class TopicQueues:
    """The queues of one topic; to be made anew when it gets partitions."""

    __slots__ = ("_numbers", "_of_set", "_set_ids")

    def __init__(self, set_ids: Sequence[ReplicaSetId]) -> None:
        """`set_ids` are the replica sets of the partitions, in order."""
        self._of_set: dict[ReplicaSetId, list[int]] = {}
        self._set_ids = set_ids
        self._numbers: list[int] = []
        for partition, set_id in enumerate(set_ids):
            of_set = self._of_set.setdefault(set_id, [])
            self._numbers.append(len(of_set))
            of_set.append(partition)

    def partition(self, queue: Queue) -> int | None:
        """Return the partition of a queue; None if there is none."""
        of_set = self._of_set.get(queue.set_id, [])
        return of_set[queue.queue_id] if 0 <= queue.queue_id < len(of_set) else None

    def queue(self, partition: int) -> Queue:
        """Return the queue of a partition that the topic has."""
        return Queue(self._set_ids[partition], self._numbers[partition])

    def counts(self) -> dict[ReplicaSetId, int]:
        """Return how many queues each replica set has, ordered by their first partition."""
        return {set_id: len(of_set) for set_id, of_set in self._of_set.items()}


def broker_name(set_id: ReplicaSetId) -> str:
    """Return the name by which clients know a replica set."""
    return f"{_NAME}{set_id}"


def set_of(name: str) -> ReplicaSetId | None:
    """Return the replica set of a broker name; None if it is none."""
    digits = name.removeprefix(_NAME)
    if digits == name or not (digits.isascii() and digits.isdecimal()):
        return None
    return ReplicaSetId(int(digits)) if len(digits) <= _DIGITS_MAX else None
