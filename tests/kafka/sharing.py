"""A member of a share group that speaks to a live node in plain requests."""

import asyncio
import datetime
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from penstock.base.ids import BrokerId
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.metadata.kinds import ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.read import iter_records
from tests.live_node import ANSWER_SECONDS, LiveNode, RawClient

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE
Place = tuple[bytes, int]
Ack = tuple[int, int, Sequence[int]]
"""First and last offset, inclusive, and types."""


class Range(NamedTuple):
    """Acquired records; `last` is inclusive."""

    first: int
    last: int
    deliveries: int


def ms(count: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=count)


class Member:
    """One member on one connection; `epoch` is that of its next request."""

    def __init__(
        self, client: RawClient, topic_id: bytes, *, name: str = "m", group: str = "g"
    ) -> None:
        self.client = client
        self.topic_id = topic_id
        self.name = name
        self.group = group
        self.epoch = 0
        self.version = 2

    def fetch_fields(
        self,
        partitions: Sequence[int] = (),
        acks: Mapping[int, Sequence[Ack]] | None = None,
        forgotten: Sequence[int] = (),
        **fields: Any,
    ) -> dict[str, Any]:
        acks = acks or {}
        named = [
            {"partition_index": one, "acknowledgement_batches": _batches(acks.get(one, ()))}
            for one in dict.fromkeys((*partitions, *acks))
        ]
        gone = [{"topic_id": uuid.UUID(bytes=self.topic_id), "partitions": forgotten}]
        asked: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait": ms(0),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [{"topic_id": uuid.UUID(bytes=self.topic_id), "partitions": named}]
            if named
            else [],
            "forgotten_topics_data": gone if forgotten else [],
        }
        if self.version >= 2:
            asked |= {"share_acquire_mode": 0, "is_renew_ack": False}
        return asked | fields

    def fetch(self, *args: Any, **fields: Any) -> Any:
        """Return the answer to a fetch, whose session goes on."""
        answer = self.client.ask(FETCH, self.version, self.fetch_fields(*args, **fields))
        if answer.error_code == ErrorCode.NONE:
            self.epoch += 1
        return answer

    def open(self, *partitions: int, **fields: Any) -> Any:
        """Open a session of these partitions; whoever is first begins their shares."""
        self.epoch = 0
        return self.fetch(partitions or (0,), **fields)

    def close(self, acks: Mapping[int, Sequence[Ack]] | None = None) -> Any:
        fields = self.fetch_fields((), acks, share_session_epoch=-1)
        return self.client.ask(FETCH, self.version, fields)

    def acknowledge(self, acks: Mapping[int, Sequence[Ack]], **fields: Any) -> Any:
        """Return the answer to a ShareAcknowledge."""
        parts = [
            {"partition_index": one, "acknowledgement_batches": _batches(some)}
            for one, some in acks.items()
        ]
        asked: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "topics": [{"topic_id": uuid.UUID(bytes=self.topic_id), "partitions": parts}],
        }
        if self.version >= 2:
            asked["is_renew_ack"] = False
        answer = self.client.ask(ACKNOWLEDGE, self.version, asked | fields)
        if answer.error_code == ErrorCode.NONE:
            self.epoch += 1
        return answer

    def say(self, first: int, last: int, *types: int) -> int:
        """Acknowledge a range of partition 0; return the partition's code."""
        answer = self.acknowledge({0: [(first, last, types)]})
        assert answer.error_code == ErrorCode.NONE
        return int(part_of(answer).error_code)


def _batches(acks: Sequence[Ack]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in acks
    ]


def part_of(answer: Any, partition: int = 0) -> Any:
    """Return what an answer has of a partition."""
    (found,) = [
        part
        for topic in answer.responses
        for part in topic.partitions
        if part.partition_index == partition
    ]
    return found


def ranges(answer: Any, partition: int = 0) -> list[Range]:
    """Return what was acquired of a partition; nothing if the answer does not have it."""
    return [
        Range(one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        if part.partition_index == partition
        for one in part.acquired_records
    ]


def values(answer: Any, partition: int = 0) -> list[bytes | None]:
    """Return the values of the acquired records, as a client finds them in the batches."""
    wanted = {
        offset for one in ranges(answer, partition) for offset in range(one.first, one.last + 1)
    }
    data = memoryview(part_of(answer, partition).records or b"")
    found: list[bytes | None] = []
    while data:
        size = read_header(data).size_bytes
        records = iter_records(data[:size])
        found += [record.value for record in records if record.offset in wanted]
        data = data[size:]
    return found


def set_group(node: LiveNode, key: str, value: str, group: str = "g") -> None:
    """Set a key of a group."""
    edits = ResourceEdits(
        resource_type=ResourceType.GROUP,
        resource_name=group,
        edits=(ConfigEdit(key=key, operation=ConfigOperation.SET, value=value),),
    )
    (outcome,) = node.submit(AlterConfigs(resources=(edits,)))
    assert outcome.error is None


def subscribe(node: LiveNode, topic: str, group: str = "g") -> None:
    """Let a member join that does nothing more: its group then knows of shares in the topic."""
    with closing(node.connect()) as client:
        answer = client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, joining(topic, group))
    assert answer.error_code == ErrorCode.NONE


def joining(topic: str, group: str = "g", name: str = "keeper") -> dict[str, Any]:
    """Return the heartbeat of a member that joins."""
    return {
        "group_id": group,
        "member_id": name,
        "member_epoch": 0,
        "rack_id": None,
        "subscribed_topic_names": [topic],
    }


def ask(node: LiveNode, question: Any) -> Any:
    """Return what a node answers to a coordinator of a share group, here its own."""
    asked = node.node.calls.ask(BrokerId(1), question, timeout_ms=30_000)
    return asyncio.run_coroutine_threadsafe(asked, node.loop).result(ANSWER_SECONDS)
