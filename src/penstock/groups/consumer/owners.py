"""Which member has each partition: assigned, or yet to be given up.

    topic id ─► partition ─► member id

A member may have tens of thousands of partitions, and what it has is confirmed in one turn of the
event loop. So they are moved by topic, by operations on whole sets and dicts.

Source: Kafka, ConsumerGroup.currentPartitionEpoch, which is by topic as well.
"""

from collections.abc import Iterator, Mapping

from penstock.assignors.partitions import NOTHING, Partitions
from penstock.groups.assigned.currents import Current

Owners = dict[bytes, dict[int, str]]


def held(current: Current | None) -> Iterator[tuple[bytes, frozenset[int]]]:
    """Yield what a member has, by topic: a topic may come twice."""
    if current is not None:
        yield from current.assigned.items()
        yield from current.revoking.items()


def move(owners: Owners, member_id: str, before: Current | None, after: Current | None) -> None:
    """Note what a member has now instead of what it had, unless another one took that meanwhile."""
    kept = NOTHING if after is None else _all_of(after)
    for topic_id, numbers in held(before):
        owned = owners.get(topic_id, {})
        for number in numbers - kept.get(topic_id, frozenset()):
            if owned.get(number) == member_id:
                del owned[number]
    for topic_id, numbers in kept.items():
        owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))


def drop_unowned(owners: Owners, before: Current | None) -> None:
    """Forget those topics of which a member had some and nobody has any now."""
    for topic_id, _ in held(before):
        if not owners.get(topic_id, True):
            del owners[topic_id]


def of_others(owned: Mapping[int, str], member_id: str, numbers: frozenset[int]) -> frozenset[int]:
    """Return those of a topic's partitions that another member has."""
    taken = numbers & owned.keys()
    return frozenset(number for number in taken if owned[number] != member_id)


def _all_of(current: Current) -> Partitions:
    if not current.revoking:
        return current.assigned
    found = dict(current.assigned)
    for topic_id, numbers in current.revoking.items():
        found[topic_id] = found.get(topic_id, frozenset()) | numbers
    return found
