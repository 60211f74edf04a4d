"""Consumer groups as an operator sees them: list, describe, delete, positions and their reset.

The idea: lists are gathered from every broker, as each coordinator knows only its own groups; all
else goes to the coordinator of the group.

Source: KIP-88, KIP-222 (delete), KIP-496 (OffsetDelete), `ConsumerProtocolAssignment` for what a
member reads. It deliberately does not join groups.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client.cluster import Cluster, check_code
from penstock.client.connection import Connection
from penstock.client.views import CommittedOffset, GroupMember, GroupView, ListedGroup
from penstock.protocol.api_keys import ApiKey

T = TypeVar("T")
Partition = tuple[str, int]
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Groups:
    """Groups through a `Cluster`, which stays the caller's to close."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(self) -> list[ListedGroup]:
        """Return the groups of all brokers by id."""

        def attempt() -> list[ListedGroup]:
            found: dict[str, ListedGroup] = {}
            for broker in self._cluster.describe([]).brokers:
                answer = self._cluster.connection(broker.broker_id).call(ApiKey.LIST_GROUPS, {})
                check_code(answer.error_code, f"groups of broker {broker.broker_id}")
                found |= {one.group_id: _listed(one) for one in answer.groups}
            return [found[group_id] for group_id in sorted(found)]

        return self._cluster.retry("list of groups", attempt)

    def describe(self, group_id: str) -> GroupView:
        """Return state and members; a group that does not exist has the state Dead."""

        def ask(connection: Connection) -> GroupView:
            (found,) = connection.call(ApiKey.DESCRIBE_GROUPS, {"groups": [group_id]}).groups
            check_code(found.error_code, f"group {group_id}")
            return GroupView(
                group_id=group_id,
                state=found.group_state,
                protocol_type=found.protocol_type,
                protocol=found.protocol_data,
                members=tuple(map(_member, found.members)),
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
        topics = None if partitions is None else _by_topic({one: one[1] for one in partitions})
        if topics is not None:
            topics = [
                {"name": one["name"], "partition_indexes": one["partitions"]} for one in topics
            ]

        def ask(connection: Connection) -> dict[Partition, CommittedOffset]:
            answer = connection.call(ApiKey.OFFSET_FETCH, {"group_id": group_id, "topics": topics})
            check_code(getattr(answer, "error_code", 0), f"offsets of group {group_id}")
            found: dict[Partition, CommittedOffset] = {}
            for topic in answer.topics:
                for one in topic.partitions:
                    check_code(one.error_code, f"offset of {topic.name}-{one.partition_index}")
                    if one.committed_offset >= 0:
                        found[topic.name, one.partition_index] = _committed(one)
            return found

        return self._ask(group_id, "offsets", ask)

    def commit(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        """Set positions (next offset to read) of a group without members.

        Raises BrokerError: UNKNOWN_MEMBER_ID while members are there.
        """
        topics = _by_topic(
            {
                one: {
                    "partition_index": one[1],
                    "committed_offset": offset,
                    "committed_metadata": "",
                }
                for one, offset in offsets.items()
            }
        )
        fields = {"group_id": group_id, "member_id": "", "topics": topics, "retention_time_ms": -1}

        def ask(connection: Connection) -> None:
            for topic in connection.call(ApiKey.OFFSET_COMMIT, fields).topics:
                for one in topic.partitions:
                    what = f"commit of {topic.name}-{one.partition_index} by group {group_id}"
                    check_code(one.error_code, what)

        self._ask(group_id, "commit", ask)

    def delete_offsets(self, group_id: str, partitions: Sequence[Partition]) -> None:
        """Forget positions. Raises BrokerError: GROUP_SUBSCRIBED_TO_TOPIC while it is read."""
        topics = _by_topic({one: {"partition_index": one[1]} for one in partitions})

        def ask(connection: Connection) -> None:
            fields = {"group_id": group_id, "topics": topics}
            answer = connection.call(ApiKey.OFFSET_DELETE, fields)
            check_code(answer.error_code, f"deleting offsets of group {group_id}")
            for topic in answer.topics:
                for one in topic.partitions:
                    check_code(one.error_code, f"offset of {topic.name}-{one.partition_index}")

        self._ask(group_id, "delete offsets", ask)

    def _ask(self, group_id: str, verb: str, ask: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            return ask(self._cluster.coordinator_connection(group_id))

        return self._cluster.retry(f"{verb} of group {group_id}", attempt)


def _by_topic(entries: Mapping[Partition, Any]) -> list[dict[str, Any]]:
    """Group what is said of each partition as requests want it."""
    found: dict[str, list[Any]] = {}
    for (topic, _), entry in entries.items():
        found.setdefault(topic, []).append(entry)
    return [{"name": topic, "partitions": entries} for topic, entries in found.items()]


def _listed(one: Any) -> ListedGroup:
    return ListedGroup(
        group_id=one.group_id,
        protocol_type=one.protocol_type,
        state=getattr(one, "group_state", ""),
    )


def _committed(one: Any) -> CommittedOffset:
    return CommittedOffset(
        offset=one.committed_offset,
        leader_epoch=getattr(one, "committed_leader_epoch", -1),
        metadata=one.metadata or "",
    )


def _member(one: Any) -> GroupMember:
    return GroupMember(
        member_id=one.member_id,
        group_instance_id=getattr(one, "group_instance_id", None),
        client_id=one.client_id,
        client_host=one.client_host,
        partitions=parse_assignment(bytes(one.member_assignment)),
    )


def parse_assignment(data: bytes) -> tuple[Partition, ...]:
    """Return the partitions of a consumer's assignment; none where it is of another protocol.

        version i16 | topic count i32, { name string16, count i32, partition i32... } | user data

    The bytes are the members' own: a broker does not look at them, so anything may stand there.
    """
    found: list[Partition] = []
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
            found += [(topic, partition) for partition in partitions]
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(found)
