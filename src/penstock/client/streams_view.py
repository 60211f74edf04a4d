"""A streams group as operators see it (KIP-1071): members with tasks, and partitions by these.

A task of a subtopology reads the partition of its number of every topic that the subtopology reads.

Source: StreamsGroupDescribe 0.
"""

from collections.abc import Mapping
from typing import Any

from penstock.client.assigned_groups import described
from penstock.client.connection import Connection
from penstock.client.views import GroupMember, GroupView
from penstock.protocol.api_keys import ApiKey

STREAMS = "streams"
ROLES = ("active", "standby", "warmup")


def streams_group(connection: Connection, group_id: str) -> GroupView | None:
    """Return a streams group; None if it is of another type, or unknown."""
    group = described(connection, ApiKey.STREAMS_GROUP_DESCRIBE, group_id)
    if group is None:
        return None
    topology = group.topology
    sources = {
        one.subtopology_id: (
            *one.source_topics,
            *(topic.name for topic in one.repartition_source_topics),
        )
        for one in (() if topology is None else topology.subtopologies or ())
    }
    return GroupView(
        group_id=group_id,
        state=group.group_state,
        protocol_type=STREAMS,
        protocol="sticky",
        group_type=STREAMS,
        members=tuple(_member(member, sources) for member in group.members),
        topology_epoch=None if topology is None else topology.epoch,
    )


def _member(member: Any, sources: Mapping[str, tuple[str, ...]]) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        partitions=tuple(
            (topic, number)
            for tasks in member.assignment.active_tasks
            for topic in sources.get(tasks.subtopology_id, ())
            for number in tasks.partitions
        ),
        tasks=tuple(
            f"{role} {tasks.subtopology_id}_{number}"
            for role in ROLES
            for tasks in getattr(member.assignment, f"{role}_tasks")
            for number in tasks.partitions
        ),
    )
