"""Where the state of tasks can be asked for: members' endpoints with the partitions of their tasks.

Source: KIP-1071 (`PartitionsByUserEndpoint`); Kafka, EndpointToPartitionsManager.
"""

from collections.abc import Mapping

from penstock.groups.assigned.currents import NEW
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.messages import EndpointTasks
from penstock.groups.streams.tasks import Role, Tasks, of_role, subtopology_of

TOLD_MAX = 10_000
"""Members and partitions that are told; of a larger application none are, as each answer that has
them would take a long turn."""
Topics = Mapping[str, tuple[str, ...]]
"""What the tasks of a subtopology read."""


def endpoints_of(group: StreamsGroup) -> tuple[EndpointTasks, ...]:
    """Return the endpoints of all members that have one; gathered once for each epoch."""
    if group.endpoints is None:
        group.endpoints = _gathered(group)
    return group.endpoints


def _gathered(group: StreamsGroup) -> tuple[EndpointTasks, ...]:
    """Return the endpoints, or nothing if there are too many."""
    configured = group.configured
    topics: Topics = {}
    if configured is not None:
        topics = {
            one.subtopology_id: (*one.sources, *(topic.name for topic in one.repartition_sources))
            for one in configured.subtopologies
        }
    found: list[EndpointTasks] = []
    left = TOLD_MAX
    for member_id, facts in group.facts.items():
        if facts.endpoint is None:
            continue
        tasks = group.currents.get(member_id, NEW).assigned
        left -= 1 + _size(tasks, topics)
        if left < 0:
            return ()
        found.append(
            EndpointTasks(
                facts.endpoint,
                _partitions(configured, tasks, topics, Role.ACTIVE),
                _partitions(configured, tasks, topics, Role.STANDBY),
            )
        )
    return tuple(found)


def _size(tasks: Tasks, topics: Topics) -> int:
    """Return how many partitions of topics tasks read at most."""
    read = (len(some) * len(topics.get(subtopology_of(key), ())) for key, some in tasks.items())
    return sum(read)


def _partitions(
    configured: Configured | None, tasks: Tasks, topics: Topics, role: Role
) -> dict[str, tuple[int, ...]]:
    """Return the partitions that tasks read, by topic: a topic may have fewer than tasks."""
    found: dict[str, tuple[int, ...]] = {}
    if configured is None:
        return found
    for subtopology_id, numbers in of_role(tasks, role).items():
        for topic in topics.get(subtopology_id, ()):
            count = configured.counts.get(topic, 0)
            read = {number for number in numbers if number < count}
            found[topic] = tuple(sorted(read.union(found.get(topic, ()))))
    return found
