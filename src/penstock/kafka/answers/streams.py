"""Tasks and endpoints of streams groups, as answers have them.

Source: `TaskIds`, `Endpoint` and `EndpointToPartitions` of StreamsGroupHeartbeat and
StreamsGroupDescribe 0; KIP-1071.
"""

from collections.abc import Mapping

from penstock.groups.streams.messages import EndpointTasks
from penstock.groups.streams.records import Endpoint
from penstock.groups.streams.tasks import Role, Tasks, of_role

Fields = dict[str, object]

ROLES = (
    ("active_tasks", Role.ACTIVE),
    ("standby_tasks", Role.STANDBY),
    ("warmup_tasks", Role.WARMUP),
)


def tasks_told(tasks: Tasks, role: Role) -> list[Fields]:
    """Return the tasks of a role as answers have them."""
    return [
        {"subtopology_id": subtopology_id, "partitions": sorted(numbers)}
        for subtopology_id, numbers in of_role(tasks, role).items()
    ]


def tasks_by_endpoint(one: EndpointTasks) -> Fields:
    """Return an endpoint with the partitions of its tasks."""
    return {
        "user_endpoint": endpoint_told(one.endpoint),
        "active_partitions": _topics_told(one.active),
        "standby_partitions": _topics_told(one.standby),
    }


def endpoint_told(endpoint: Endpoint) -> Fields:
    """Return an endpoint as answers have it."""
    return {"host": endpoint.host, "port": endpoint.port}


def _topics_told(topics: Mapping[str, tuple[int, ...]]) -> list[Fields]:
    return [{"topic": name, "partitions": numbers} for name, numbers in topics.items()]
