"""Attacks by groups that share, by applications of streams, and by groups that change protocol.

share-sessions      sessions of 9,000 partitions that nobody closes, one after another
share-parked        sessions of 2,000 partitions, each with 50 fetches that wait, on 20 connections
share-acks          acknowledgements of 9,999 ranges of a record, and fetches between them
share-offsets       a group with 2,000 shares that is named 20,000 times in one question
share-groups        groups of a member that names 500 topics, 50 on their way, who leaves at once
streams-tangled     applications of 800 topics that wait for the end of a chain of 100
streams-regexes     applications with 64 expressions of which each takes long to be compiled
mixed-protocols     groups that a member of either protocol joins and leaves again
"""

import contextlib
import datetime
import itertools
import socket
import uuid
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import parse_response_header
from penstock.protocol.messages import decode_response
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    Address,
    Aim,
    Attack,
    asking,
    exactly,
    exchange,
    request,
)
from reliability.attacks.attack_kept import find_coordinator, sending

SHARED = "shared"
PARTITIONS, UNKNOWN_PARTITIONS = 2_000, 9_000
PIPELINED, RANGES, NAMED, TOPICS, TOGETHER = 50, 9_999, 20_000, 500, 50
WIDE, LINKS, REGEXES, GROUPS = 800, 100, 64, 10
Context = contextlib.AbstractContextManager[object]


def _ms(count: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=count)


def _topic_id(address: Address) -> uuid.UUID:
    topics = [{"topic_id": None, "name": SHARED}]
    fields = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        connection.sendall(request(ApiKey.METADATA, 12, fields))
        frame = memoryview(exactly(connection, int.from_bytes(exactly(connection, 4), "big")))
    _, at = parse_response_header(frame, ApiKey.METADATA, 12)
    (topic,) = decode_response(ApiKey.METADATA, 12, frame, at).topics
    found: uuid.UUID = topic.topic_id
    return found


class _Member:
    """Frames of one member of a share group."""

    def __init__(self, topic_id: uuid.UUID, number: int) -> None:
        self._topic_id = topic_id
        self._head = {"group_id": f"shared-{number % GROUPS}", "member_id": f"member-{number}"}
        self._epoch = itertools.count()

    def fetch(self, partitions: int = 0, wait_ms: int = 0) -> bytes:
        named = [
            {"partition_index": one, "acknowledgement_batches": []} for one in range(partitions)
        ]
        fields = {
            "max_wait": _ms(wait_ms),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 1,
            "batch_size": 1,
            "share_acquire_mode": 0,
            "is_renew_ack": False,
            "forgotten_topics_data": [],
        }
        return request(ApiKey.SHARE_FETCH, 2, self._said(named) | fields)

    def acknowledge(self) -> bytes:
        ranges = [
            {"first_offset": one, "last_offset": one, "acknowledge_types": [1]}
            for one in range(RANGES)
        ]
        named = [{"partition_index": 0, "acknowledgement_batches": ranges}]
        fields = self._said(named) | {"is_renew_ack": False}
        return request(ApiKey.SHARE_ACKNOWLEDGE, 2, fields)

    def _said(self, named: list[dict[str, Any]]) -> dict[str, Any]:
        topics = [{"topic_id": self._topic_id, "partitions": named}] if named else []
        return self._head | {"share_session_epoch": next(self._epoch), "topics": topics}


def _members(address: Address) -> Any:
    """Return what gives a new member with each call, of a group that may have shares."""
    find_coordinator(address)
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        joins = [_share_beat(f"shared-{one}", 0, [SHARED]) for one in range(GROUPS)]
        exchange(connection, joins)
    topic_id, numbers = _topic_id(address), itertools.count()
    return lambda: _Member(topic_id, next(numbers))


def _sessions(aim: Aim) -> Context:
    new = _members(aim.kafka)
    return sending(aim.kafka, lambda: [new().fetch(UNKNOWN_PARTITIONS)], connections=20)


def _parked(aim: Aim) -> Context:
    new = _members(aim.kafka)

    def next_ones() -> list[bytes]:
        member = new()
        first = member.fetch(PARTITIONS)
        return [first, *(member.fetch(wait_ms=1_000) for _ in range(PIPELINED))]

    return sending(aim.kafka, next_ones, connections=20)


def _acks(aim: Aim) -> Context:
    new = _members(aim.kafka)

    def next_ones() -> list[bytes]:
        member = new()
        first = member.fetch(1)
        return [first, *(one for _ in range(4) for one in (member.acknowledge(), member.fetch()))]

    return sending(aim.kafka, next_ones, connections=4)


def _offsets(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    asked = [{"group_id": "named", "topics": None}] * NAMED
    frame = request(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {"groups": asked})
    return asking(aim.kafka, [[_share_beat("named", 0, [SHARED])], [frame] * 2], connections=2)


def _share_beat(group: str, epoch: int, topics: list[str] | None) -> bytes:
    fields = {
        "group_id": group,
        "member_id": "member",
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": topics,
    }
    return request(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)


def _groups(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    numbers = itertools.count()
    topics = [f"unknown-{one}" for one in range(TOPICS)]

    def next_ones() -> list[bytes]:
        names = [f"share-{next(numbers)}" for _ in range(TOGETHER)]
        joins = [_share_beat(name, 0, topics) for name in names]
        return joins + [_share_beat(name, -1, None) for name in names]

    return sending(aim.kafka, next_ones, connections=4)


def _application(group: str, subtopologies: list[dict[str, Any]]) -> list[bytes]:
    """Return the join of the only member of an application, and how it leaves."""
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": "member",
        "member_epoch": 0,
        "endpoint_information_epoch": -1,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": _ms(10_000),
        "topology": {"epoch": 0, "subtopologies": subtopologies},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "process",
        "user_endpoint": None,
        "client_tags": [],
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
    }
    leave = {"topology": None, "member_epoch": -1, "rebalance_timeout": _ms(-1)}
    leave |= dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
    join = request(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, fields)
    return [join, request(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, fields | leave)]


def _part(name: str, **fields: Any) -> dict[str, Any]:
    empty = (
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )
    return {"subtopology_id": name, **{one: [] for one in empty}, **fields}


def _internal(name: str, partitions: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": 0,
        "topic_configs": [],
    }


def _tangle() -> list[dict[str, Any]]:
    """Subtopologies whose repartition topics are known only from the end of a chain on."""
    names = [f"x{one}" for one in range(WIDE)]
    sources = [_internal(f"f{one}", 1) for one in range(WIDE)] + [_internal("c0")]
    links = [
        _part(
            f"s{one}",
            repartition_sink_topics=[f"c{one}"],
            repartition_source_topics=[_internal(f"c{one + 1}")],
        )
        for one in range(LINKS)
    ]
    return [
        _part("a", repartition_sink_topics=names, repartition_source_topics=sources),
        _part("b", repartition_source_topics=[_internal(one) for one in names]),
        *links,
        _part("z", source_topics=[SHARED], repartition_sink_topics=[f"c{LINKS}"]),
    ]


def _tangled(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    numbers, parts = itertools.count(), _tangle()
    return sending(
        aim.kafka, lambda: _application(f"tangled-{next(numbers) % 100}", parts), connections=4
    )


def _regexes(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    numbers = itertools.count()

    def next_ones() -> list[bytes]:
        number = next(numbers)
        regexes = [f"(.{{1,30}}){{1,30}}{number}-{one}" for one in range(REGEXES)]
        return _application(f"regexes-{number % 100}", [_part("a", source_topic_regex=regexes)])

    return sending(aim.kafka, next_ones, connections=4)


def _mixed(aim: Aim) -> Context:
    find_coordinator(aim.kafka)
    numbers = itertools.count()

    def next_ones() -> list[bytes]:
        group = f"mixed-{next(numbers) % 500}"
        enter = {
            "group_id": group,
            "member_id": "new",
            "member_epoch": 0,
            "rebalance_timeout": _ms(9_000),
            "subscribed_topic_names": [SHARED],
            "topic_partitions": [],
        }
        leave = {"group_id": group, "member_id": "new", "member_epoch": -1}
        join = {
            "group_id": group,
            "session_timeout": _ms(6_000),
            "rebalance_timeout": _ms(1_000),
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
        }
        heartbeats = [request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, one) for one in (enter, leave)]
        return [heartbeats[0], request(ApiKey.JOIN_GROUP, 3, join), heartbeats[1]]

    return sending(aim.kafka, next_ones, connections=10)


_SUBSCRIPTION = (
    b"\0\0"
    + (1).to_bytes(4, "big")
    + len(SHARED).to_bytes(2, "big")
    + SHARED.encode()
    + b"\xff" * 4
)
"""Version 0 of what a consumer says: a topic, and no data of its own."""

SHARES: dict[str, Attack] = {
    "share-sessions": _sessions,
    "share-parked": _parked,
    "share-acks": _acks,
    "share-offsets": _offsets,
    "share-groups": _groups,
    "streams-tangled": _tangled,
    "streams-regexes": _regexes,
    "mixed-protocols": _mixed,
}
SHARED_TOPIC = dict.fromkeys(SHARES, (SHARED, PARTITIONS))
"""The topic that must be there, and of how many partitions."""
GROUPS_STAY = frozenset({"share-groups", "share-parked", "share-sessions", "streams-tangled"})
"""Groups and shares that these make stay, within their bounds."""
