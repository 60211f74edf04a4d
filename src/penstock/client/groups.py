"""Consumer groups for operators: list, describe, delete, read and reset positions.

The idea: lists are collected from every broker, since each coordinator knows only its own groups;
all other requests go to the coordinator of the group.

Source: KIP-88, KIP-222 (delete), KIP-496 (OffsetDelete), KIP-848, KIP-932, KIP-1071,
`ConsumerProtocolAssignment` for the partitions of a member of a classic group. It deliberately does
not join groups.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client.assigned_groups import assigned_group
from penstock.client.cluster import Cluster, check_code
from penstock.client.connection import Connection
from penstock.client.share_groups import move_shares, share_group, share_positions
from penstock.client.streams_view import streams_group
from penstock.client.views import (
    CommittedOffset,
    GroupMember,
    GroupView,
    ListedGroup,
    SharePosition,
)
from penstock.protocol.api_keys import ApiKey

T = TypeVar("T")
Partition = tuple[str, int]
CLASSIC, CONSUMER = "classic", "consumer"
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Groups:
    """Administration of groups through a `Cluster`, which the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(self) -> list[ListedGroup]:
        """Return the groups of all brokers by id."""

        def attempt() -> list[ListedGroup]:
            groups: dict[str, ListedGroup] = {}
            for broker in self._cluster.describe([]).brokers:
                answer = self._cluster.connection(broker.broker_id).call(ApiKey.LIST_GROUPS, {})
                check_code(answer.error_code, f"groups of broker {broker.broker_id}")
                groups |= {group.group_id: _listed(group) for group in answer.groups}
            return [groups[group_id] for group_id in sorted(groups)]

        return self._cluster.retry("list of groups", attempt)

    def describe(self, group_id: str) -> GroupView:
        """Return state and members; a group that does not exist has the state Dead."""

        def ask(connection: Connection) -> GroupView:
            for look in (_consumer_group, share_group, streams_group):
                assigned = look(connection, group_id)
                if assigned is not None:
                    return assigned
            (group,) = connection.call(ApiKey.DESCRIBE_GROUPS, {"groups": [group_id]}).groups
            check_code(group.error_code, f"group {group_id}")
            return GroupView(
                group_id=group_id,
                state=group.group_state,
                protocol_type=group.protocol_type,
                protocol=group.protocol_data,
                group_type=CLASSIC,
                members=tuple(map(_member, group.members)),
            )

        return self._ask(group_id, "describe", ask)

    def delete(self, group_id: str) -> None:
        """Delete an empty group with its positions. Raises BrokerError (NON_EMPTY_GROUP, ...)."""

        def ask(connection: Connection) -> None:
            (result,) = connection.call(ApiKey.DELETE_GROUPS, {"groups_names": [group_id]}).results
            check_code(result.error_code, f"deleting group {group_id}")

        self._ask(group_id, "delete", ask)

    def offsets(
        self, group_id: str, partitions: Sequence[Partition] | None = None
    ) -> dict[Partition, CommittedOffset]:
        """Return the positions that a group committed: all, or of these partitions."""
        topics = None if partitions is None else _by_topic({key: key[1] for key in partitions})
        if topics is not None:
            topics = [
                {"name": topic["name"], "partition_indexes": topic["partitions"]}
                for topic in topics
            ]

        def ask(connection: Connection) -> dict[Partition, CommittedOffset]:
            answer = connection.call(ApiKey.OFFSET_FETCH, {"group_id": group_id, "topics": topics})
            check_code(getattr(answer, "error_code", 0), f"offsets of group {group_id}")
            offsets: dict[Partition, CommittedOffset] = {}
            for topic in answer.topics:
                for result in topic.partitions:
                    partition = result.partition_index
                    check_code(result.error_code, f"offset of {topic.name}-{partition}")
                    if result.committed_offset >= 0:
                        offsets[topic.name, partition] = _committed(result)
            return offsets

        return self._ask(group_id, "offsets", ask)

    def commit(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        """Set positions (next offset to read) of a group without members.

        Raises BrokerError: UNKNOWN_MEMBER_ID while members are there.
        """
        topics = _by_topic(
            {
                key: {
                    "partition_index": key[1],
                    "committed_offset": offset,
                    "committed_metadata": "",
                }
                for key, offset in offsets.items()
            }
        )
        fields = {"group_id": group_id, "member_id": "", "topics": topics, "retention_time_ms": -1}

        def ask(connection: Connection) -> None:
            for topic in connection.call(ApiKey.OFFSET_COMMIT, fields).topics:
                for result in topic.partitions:
                    what = f"commit of {topic.name}-{result.partition_index} by group {group_id}"
                    check_code(result.error_code, what)

        self._ask(group_id, "commit", ask)

    def shares(self, group_id: str) -> dict[Partition, SharePosition]:
        """Return where the shares of a share group are."""
        return self._ask(group_id, "shares", lambda one: share_positions(one, group_id))

    def move_shares(self, group_id: str, starts: Mapping[Partition, int]) -> None:
        """Let the shares of a share group without members begin elsewhere."""
        self._ask(group_id, "move shares", lambda one: move_shares(one, group_id, starts))

    def delete_offsets(self, group_id: str, partitions: Sequence[Partition]) -> None:
        """Delete positions. Raises BrokerError: GROUP_SUBSCRIBED_TO_TOPIC while members read it."""
        topics = _by_topic({key: {"partition_index": key[1]} for key in partitions})

        def ask(connection: Connection) -> None:
            fields = {"group_id": group_id, "topics": topics}
            answer = connection.call(ApiKey.OFFSET_DELETE, fields)
            check_code(answer.error_code, f"deleting offsets of group {group_id}")
            for topic in answer.topics:
                for result in topic.partitions:
                    partition = f"{topic.name}-{result.partition_index}"
                    check_code(result.error_code, f"offset of {partition}")

        self._ask(group_id, "delete offsets", ask)

    def _ask(self, group_id: str, verb: str, ask: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            return ask(self._cluster.coordinator_connection(group_id))

        return self._cluster.retry(f"{verb} of group {group_id}", attempt)


def _by_topic(entries: Mapping[Partition, Any]) -> list[dict[str, Any]]:
    """Group entries of partitions by topic, as requests need them."""
    by_topic: dict[str, list[Any]] = {}
    for (topic, _), entry in entries.items():
        by_topic.setdefault(topic, []).append(entry)
    return [{"name": topic, "partitions": entries} for topic, entries in by_topic.items()]


def _listed(group: Any) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        state=getattr(group, "group_state", ""),
        group_type=getattr(group, "group_type", "").lower(),
    )


def _consumer_group(connection: Connection, group_id: str) -> GroupView | None:
    """Return a group that the coordinator assigns; None if it is of another type, or unknown."""
    key = ApiKey.CONSUMER_GROUP_DESCRIBE
    return assigned_group(connection, key, group_id, CONSUMER, _assigned_member)


def _assigned_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        partitions=tuple(
            (topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ),
    )


def _committed(partition: Any) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=getattr(partition, "committed_leader_epoch", -1),
        metadata=partition.metadata or "",
    )


def _member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=getattr(member, "group_instance_id", None),
        client_id=member.client_id,
        client_host=member.client_host,
        partitions=parse_assignment(bytes(member.member_assignment)),
    )


def parse_assignment(data: bytes) -> tuple[Partition, ...]:
    """Return the partitions of a consumer's assignment; none if it is of another protocol.

        version i16 | topic count i32, { name string16, count i32, partition i32... } | user data

    A broker does not check these bytes, which members choose, so they may be anything.
    """
    assigned: list[Partition] = []
    try:
        (topic_count,) = _INT32.unpack_from(data, _INT16.size)
        at = _INT16.size + _INT32.size
        for _ in range(topic_count):
            (name_bytes,) = _INT16.unpack_from(data, at)
            if name_bytes < 0:
                return ()
            at += _INT16.size + name_bytes
            topic = data[at - name_bytes : at].decode()
            (count,) = _INT32.unpack_from(data, at)
            partitions = struct.unpack_from(f">{count}i", data, at + _INT32.size)
            at += _INT32.size * (1 + count)
            assigned += [(topic, partition) for partition in partitions]
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(assigned)
