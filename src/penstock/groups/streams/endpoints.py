"""Where the state of tasks can be asked for: members' endpoints with the partitions of their tasks.

Source: KIP-1071 (`PartitionsByUserEndpoint`); Kafka, EndpointToPartitionsManager.
"""

from penstock.groups.assigned.currents import NEW
from penstock.groups.streams.configured import Configured
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.messages import EndpointTasks
from penstock.groups.streams.tasks import Role, Tasks, of_role


def endpoints_of(group: StreamsGroup) -> tuple[EndpointTasks, ...]:
    """Return the endpoints of all members that have one; gathered once for each epoch."""
    if group.endpoints is None:
        configured = group.configured
        group.endpoints = tuple(
            EndpointTasks(
                facts.endpoint,
                _partitions(configured, group.currents.get(member_id, NEW).assigned, Role.ACTIVE),
                _partitions(configured, group.currents.get(member_id, NEW).assigned, Role.STANDBY),
            )
            for member_id, facts in group.facts.items()
            if facts.endpoint is not None
        )
    return group.endpoints


def _partitions(
    configured: Configured | None, tasks: Tasks, role: Role
) -> dict[str, tuple[int, ...]]:
    """Return the partitions that tasks read, by topic: a topic may have fewer than tasks."""
    found: dict[str, tuple[int, ...]] = {}
    if configured is None:
        return found
    topics = {
        one.subtopology_id: (*one.sources, *(topic.name for topic in one.repartition_sources))
        for one in configured.subtopologies
    }
    for subtopology_id, numbers in of_role(tasks, role).items():
        for topic in topics.get(subtopology_id, ()):
            count = configured.counts.get(topic, 0)
            read = {number for number in numbers if number < count}
            found[topic] = tuple(sorted(read.union(found.get(topic, ()))))
    return found
