"""The group protocol for members and visitors, over the simulator's connection.

    open_coordinator ─► GroupLink ─► join, sync, heartbeat, leave, commit, fetch ─► a few values

Two generations of clients are covered: NEWER members can be static and request many groups at
once, OLDER ones join without requesting an id first. Positions are always requested with
`require_stable`: otherwise the unconfirmed commit of a former member might appear afterwards.

Source: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json of Kafka, version 1.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.wire import ANSWER_SECONDS, BrokerLink
from simulator.clients.world import ClientWorld, open_any, open_link
from simulator.run.topology import TOPIC

Versions = Mapping[ApiKey, int]
Positions = dict[int, tuple[ErrorCode, int]]
"""Partition -> what was wrong with it, and the offset."""

NEWER: Versions = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 8,
}
CONSUMER: Versions = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}
"""Of members of consumer groups, to which the coordinator assigns (KIP-848)."""
OLDER: Versions = {
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 2,
    ApiKey.SYNC_GROUP: 1,
    ApiKey.HEARTBEAT: 1,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.OFFSET_COMMIT: 5,
    ApiKey.OFFSET_FETCH: 7,
}
MANY_GROUPS_FETCH = 8
MANY_GROUPS_FIND = 4

NO_GENERATION = -1
NOBODY = ""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_NO_USER_DATA = _INT32.pack(-1)
_PROTOCOL_VERSION = _INT16.pack(1)


@dataclass(slots=True, kw_only=True)
class Seat:
    """A client's identity in a group, from the coordinator's answer."""

    instance_id: str | None = None
    member_id: str = NOBODY
    generation: int = NO_GENERATION

    @property
    def owner(self) -> str:
        """The instance id of a static member, else its member id."""
        return self.instance_id or self.member_id

    def forget(self) -> None:
        """Begin again as a newcomer, or as the instance that comes back."""
        self.member_id, self.generation = NOBODY, NO_GENERATION


class Times(NamedTuple):
    """How long a member may be silent, and how long others wait for it."""

    session_ms: int
    rebalance_ms: int


class GroupLink:
    """A connection to the coordinator of one group. Everything raises LinkFailed."""

    def __init__(self, link: BrokerLink, host: str, group: str, versions: Versions) -> None:
        self.link = link
        self.host = host
        self.group = group
        self._versions = versions

    def close(self) -> None:
        """Close; again: no effect."""
        self.link.close()

    async def join(self, seat: Seat, times: Times, protocol: tuple[str, bytes]) -> Any:
        """Join, or join again; the answer comes with the next generation."""
        name, metadata = protocol
        fields = {
            **self._who(seat),
            "session_timeout": times.session_ms,
            "rebalance_timeout": times.rebalance_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": metadata}],
            "reason": "simulated",
        }
        wait_s = ANSWER_SECONDS + times.rebalance_ms / 1_000
        return await self.call(ApiKey.JOIN_GROUP, fields, wait_s=wait_s)

    async def sync(
        self, seat: Seat, protocol: str, assignments: Mapping[str, bytes]
    ) -> tuple[ErrorCode, bytes]:
        """Bring the assignments, or none, and get one's own."""
        fields = {
            **self._who(seat),
            "protocol_type": "consumer",
            "protocol_name": protocol,
            "assignments": [
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in assignments.items()
            ],
        }
        answer = await self.call(ApiKey.SYNC_GROUP, fields)
        return ErrorCode(answer.error_code), bytes(answer.assignment)

    async def heartbeat(self, seat: Seat) -> ErrorCode:
        """Show that one lives."""
        answer = await self.call(ApiKey.HEARTBEAT, self._who(seat))
        return ErrorCode(answer.error_code)

    async def consumer_heartbeat(self, fields: Mapping[str, Any]) -> Any:
        """Join, stay in or leave a consumer group."""
        return await self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": self.group, **fields})

    async def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        """Leave, or remove another member by its instance id."""
        leaving = {
            "member_id": member_id,
            "group_instance_id": instance_id,
            "reason": "simulated",
        }
        fields = {"group_id": self.group, "member_id": member_id, "members": [leaving]}
        answer = await self.call(ApiKey.LEAVE_GROUP, fields)
        return ErrorCode(answer.error_code)

    async def commit(
        self, seat: Seat, offsets: Mapping[int, int], *, topic: str = TOPIC
    ) -> dict[int, ErrorCode]:
        """Commit positions; a seat without a member id commits from outside the group."""
        partitions = [
            {"partition_index": partition, "committed_offset": offset, "committed_metadata": "x"}
            for partition, offset in offsets.items()
        ]
        fields = {
            **self._who(seat),
            "generation_id_or_member_epoch": seat.generation,
            "topics": [{"name": topic, "partitions": partitions}],
        }
        answer = await self.call(ApiKey.OFFSET_COMMIT, fields)
        return {
            partition.partition_index: ErrorCode(partition.error_code)
            for found in answer.topics
            for partition in found.partitions
        }

    async def fetch(
        self,
        partitions: Sequence[int] | None,
        *,
        is_stable: bool = True,
        seat: Seat | None = None,
        topic: str = TOPIC,
    ) -> tuple[ErrorCode, Positions]:
        """Ask for positions in the topic; None: for all that the group has, of any topic.

        A member of a consumer group names its `seat`.
        """
        topics = None
        if partitions is not None:
            topics = [{"name": topic, "partition_indexes": list(partitions)}]
        asked: dict[str, Any] = {"group_id": self.group, "topics": topics}
        if seat is not None:
            asked |= {"member_id": seat.member_id, "member_epoch": seat.generation}
        fields = {**asked, "groups": [asked], "require_stable": is_stable}
        answer = await self.call(ApiKey.OFFSET_FETCH, fields)
        if self._versions[ApiKey.OFFSET_FETCH] >= MANY_GROUPS_FETCH:
            (answer,) = answer.groups
        found = {
            partition.partition_index: (
                ErrorCode(partition.error_code),
                int(partition.committed_offset),
            )
            for told in answer.topics
            for partition in told.partitions
            if told.name == topic
        }
        return ErrorCode(answer.error_code), found

    def _who(self, seat: Seat) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": seat.generation,
            "member_id": seat.member_id,
            "group_instance_id": seat.instance_id,
        }

    async def call(
        self, key: ApiKey, fields: Mapping[str, Any], wait_s: float = ANSWER_SECONDS
    ) -> Any:
        """Send any request of the versions that this link has, and return the answer."""
        return await self.link.call(key, self._versions[key], fields, wait_s=wait_s)


async def open_coordinator(
    world: ClientWorld, draw: Random, group: str, versions: Versions
) -> GroupLink:
    """Find the group's coordinator through any broker, and connect. Raises LinkFailed."""
    link = await open_any(world, draw)
    try:
        version = versions[ApiKey.FIND_COORDINATOR]
        fields = {"key": group, "key_type": 0, "coordinator_keys": [group]}
        answer = await link.call(ApiKey.FIND_COORDINATOR, version, fields)
        if version >= MANY_GROUPS_FIND:
            (answer,) = answer.coordinators
        if answer.error_code != ErrorCode.NONE:
            raise link.broken(ErrorCode(answer.error_code).name)
    finally:
        link.close()
    broker_id = int(answer.node_id)
    link = await open_link(world, broker_id)
    return GroupLink(link, world.brokers[broker_id], group, versions)


def subscription(owned: Sequence[int]) -> bytes:
    """Return what a member says of itself when it joins: the topic, and what it owns of it."""
    return b"".join(
        (_PROTOCOL_VERSION, _INT32.pack(1), _string(TOPIC), _NO_USER_DATA, _partitions(owned))
    )


def assignment(partitions: Sequence[int]) -> bytes:
    """Return what the leader has the coordinator pass on to a member."""
    return _PROTOCOL_VERSION + _partitions(partitions) + _NO_USER_DATA


def owned_in(metadata: bytes) -> list[int]:
    """Return what the member that made this `subscription` owned."""
    front = len(subscription(())) - _INT32.size
    return _partitions_in(metadata[front:])


def assigned_in(data: bytes) -> list[int]:
    """Return the partitions of an `assignment`; nothing at all is none."""
    return _partitions_in(data[_INT16.size :]) if data else []


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def _partitions(partitions: Sequence[int]) -> bytes:
    if not partitions:
        return _INT32.pack(0)
    count = len(partitions)
    numbers = struct.pack(f">{count + 1}i", count, *partitions)
    return _INT32.pack(1) + _string(TOPIC) + numbers


def _partitions_in(data: bytes) -> list[int]:
    (topics,) = _INT32.unpack_from(data)
    if not topics:
        return []
    at = _INT32.size + len(_string(TOPIC))
    (count,) = _INT32.unpack_from(data, at)
    return list(struct.unpack_from(f">{count}i", data, at + _INT32.size))
