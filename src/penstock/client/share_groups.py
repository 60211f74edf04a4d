"""Share groups for operators (KIP-932): members, and where their shares are.

A share has no position, since records are acknowledged one by one. It has a start: everything below
it is over. Several members may have one partition.

Source: ShareGroupDescribe 1, DescribeShareGroupOffsets 0-1 (KIP-1226: the lag),
AlterShareGroupOffsets 0.
"""

from collections.abc import Mapping
from typing import Any

from penstock.client.assigned_groups import assigned_group
from penstock.client.cluster import check_code
from penstock.client.connection import Connection
from penstock.client.views import GroupMember, GroupView, SharePosition
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.own_fields import NOT_TOLD

SHARE = "share"
Partition = tuple[str, int]
NO_LAG = -1


def share_group(connection: Connection, group_id: str) -> GroupView | None:
    """Return a share group; None if it is of another type, or unknown."""
    return assigned_group(connection, ApiKey.SHARE_GROUP_DESCRIBE, group_id, SHARE, _member)


def share_positions(connection: Connection, group_id: str) -> dict[Partition, SharePosition]:
    """Return where the shares of a group are that have begun."""
    fields = {"groups": [{"group_id": group_id, "topics": None}], "with_deliveries": True}
    (group,) = connection.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, fields).groups
    check_code(group.error_code, f"shares of group {group_id}", group.error_message)
    found: dict[Partition, SharePosition] = {}
    for topic in group.topics:
        for one in topic.partitions:
            what = f"share of {topic.topic_name}-{one.partition_index}"
            check_code(one.error_code, what, one.error_message)
            lag = getattr(one, "lag", NO_LAG)
            if one.start_offset >= 0:
                in_flight = getattr(one, "in_flight", NOT_TOLD)
                found[topic.topic_name, one.partition_index] = SharePosition(
                    one.start_offset,
                    None if lag == NO_LAG else lag,
                    None if in_flight == NOT_TOLD else in_flight,
                    tuple(getattr(one, "delivered", ())),
                )
    return found


def move_shares(connection: Connection, group_id: str, starts: Mapping[Partition, int]) -> None:
    """Let shares begin elsewhere. Raises BrokerError: NON_EMPTY_GROUP while members are there."""
    by_topic: dict[str, list[dict[str, int]]] = {}
    for (topic, number), offset in starts.items():
        entry = {"partition_index": number, "start_offset": offset}
        by_topic.setdefault(topic, []).append(entry)
    topics = [{"topic_name": name, "partitions": entries} for name, entries in by_topic.items()]
    fields = {"group_id": group_id, "topics": topics}
    answer = connection.call(ApiKey.ALTER_SHARE_GROUP_OFFSETS, fields)
    check_code(answer.error_code, f"moving shares of group {group_id}", answer.error_message)
    for told in answer.responses:
        for one in told.partitions:
            what = f"moving the share of {told.topic_name}-{one.partition_index}"
            check_code(one.error_code, what, one.error_message)


def _member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=None,
        client_id=member.client_id,
        client_host=member.client_host,
        partitions=tuple(
            (topic.topic_name, number)
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        ),
    )
