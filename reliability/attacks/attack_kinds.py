"""Attacks from the Kafka port and the metrics port, each a context that lasts as long as its block.

    metadata             ten connections that ask for 100,000 unknown topics, again and again
    metadata-pipelined   one connection with fifty such requests on their way
    recompress           4.3 MB that unpack to 64 MB, for a topic that compresses anew
    deaf                 200 connections with 64 fetches each that never read
    parked               100 fetches that wait on thousands of partitions each
    joins                9,600 groups, each joined by a member with 60 kB of metadata
    metrics              3,000 idle connections on the metrics port
    refusals             160 connections with 48 small requests each that are refused
    (attack_kept.py)     what stays with a node: sessions, positions, groups, ids, connections
    (attack_settings.py) changes of metadata: settings, lists of 32 kB, topics that are validated
    (attack_transactions.py) transactions: their ids, partitions, time-outs, and questions
    (attack_shares.py)   share groups, streams groups, and groups that change protocol
    (attack_closed.py) a port with TLS and SASL, by strangers and by a user who may do nothing
    (attack_closed_fronts.py) the ports of RocketMQ's clients of such a node, by strangers
    (attack_http.py) `penstock http` beside such a node, by strangers and the holder of a token
    (attack_remoting.py) the ports of RocketMQ's clients
    api-KEY              the largest legal requests of one API, from its schema, four on their way
                         on each of two connections

Each runs in a process of its own. What a node refuses, by ending the connection, is tried again.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

from harness.bad_input.largest import largest_requests
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from penstock.record.compression import GZIP
from reliability.attacks.attack_askers import ASKERS
from reliability.attacks.attack_closed import CLOSED
from reliability.attacks.attack_closed_fronts import CLOSED_FRONTS
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    Aim,
    Attack,
    asking,
    request,
)
from reliability.attacks.attack_http import CLOSED_HTTP
from reliability.attacks.attack_kept import KEPT, find_coordinator
from reliability.attacks.attack_remoting import BY_CODE, REMOTING
from reliability.attacks.attack_settings import SETTINGS
from reliability.attacks.attack_shares import SHARES
from reliability.attacks.attack_transactions import TRANSACTIONS

RECOMPRESSED, FULL, WIDE = "recompressed", "full", "wide"
WIDE_TOPICS = 10
UNPACKED_BYTES = 64_000_000
NOISE_BYTES = 4_300_000
UNKNOWN_TOPICS = 100_000
JOINS, JOIN_CONNECTIONS, JOIN_BYTES = 9_600, 96, 60_000
METRICS_CONNECTIONS = 3_000
REFUSED_CONNECTIONS, REFUSED_PIPELINED = 160, 48
API = "api-"
PIPELINED = 4


def _unknown_topics() -> bytes:
    topics = [{"name": f"unknown-{number}"} for number in range(UNKNOWN_TOPICS)]
    fields = {"topics": topics, "allow_auto_topic_creation": False}
    return request(ApiKey.METADATA, 4, fields)


def _metadata(aim: Aim) -> contextlib.AbstractContextManager[object]:
    return asking(aim.kafka, [[_unknown_topics()]], connections=10)


def _metadata_pipelined(aim: Aim) -> contextlib.AbstractContextManager[object]:
    return asking(aim.kafka, [[_unknown_topics()] * 50], connections=1)


def _recompress(aim: Aim) -> contextlib.AbstractContextManager[object]:
    partition = {"index": 0, "records": _packed_batch()}
    data = [{"name": RECOMPRESSED, "partition_data": [partition]}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": data}
    return asking(aim.kafka, [[request(ApiKey.PRODUCE, 7, fields)]], connections=1)


def _packed_batch() -> bytes:
    """Return one batch of 64 records, of which each is noise and then nothing."""
    size, noise = UNPACKED_BYTES // 64, NOISE_BYTES // 64
    values = [os.urandom(noise).ljust(size, b"\0") for _ in range(64)]
    return build_batch([Record(None, value) for value in values], codec=GZIP)


@contextlib.contextmanager
def _deaf(aim: Aim) -> Iterator[None]:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 8 << 20}]
    frame = _fetch([{"topic": FULL, "partitions": partitions}], max_wait=0)
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(socket.create_connection(aim.kafka, ANSWER_SECONDS))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(1.0)
            with contextlib.suppress(OSError):
                connection.sendall(frame * 64)
        yield


def _parked(aim: Aim) -> contextlib.AbstractContextManager[object]:
    partitions = [
        {"partition": one, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        for one in range(aim.wide_partitions)
    ]
    topics = [{"topic": f"{WIDE}-{one}", "partitions": partitions} for one in range(WIDE_TOPICS)]
    return asking(aim.kafka, [[_fetch(topics, max_wait=1_000)]], connections=100)


def _fetch(topics: list[dict[str, Any]], *, max_wait: int) -> bytes:
    fields = {
        "replica_id": -1,
        "max_wait": max_wait,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "topics": topics,
    }
    return request(ApiKey.FETCH, 4, fields)


@contextlib.contextmanager
def _joins(aim: Aim) -> Iterator[None]:
    """Join, read no answer and go: what stays is what the node keeps of such members."""
    find_coordinator(aim.kafka)
    each = JOINS // JOIN_CONNECTIONS
    for first in range(0, JOINS, each):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(aim.kafka, ANSWER_SECONDS) as connection,
        ):
            connection.settimeout(ANSWER_SECONDS)
            for number in range(first, first + each):
                connection.sendall(_join(f"group-{number}"))
    yield


def _join(group_id: str) -> bytes:
    fields = {
        "group_id": group_id,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(JOIN_BYTES)}],
    }
    return request(ApiKey.JOIN_GROUP, 3, fields)


@contextlib.contextmanager
def _metrics(aim: Aim) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(METRICS_CONNECTIONS):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(aim.metrics, 5.0))
        yield


def _refusals(aim: Aim) -> contextlib.AbstractContextManager[object]:
    """Ask for a topic whose name is not allowed: an error is the answer to each."""
    topic = {
        "name": "not a name",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    fields = {"topics": [topic], "timeout": 1_000, "validate_only": False}
    frame = request(ApiKey.CREATE_TOPICS, 4, fields)
    return asking(aim.kafka, [[frame] * REFUSED_PIPELINED], connections=REFUSED_CONNECTIONS)


def _largest(key: int) -> Attack:
    def attack(aim: Aim) -> contextlib.AbstractContextManager[object]:
        api = load_apis()[key]
        frames = [[each.frame] * PIPELINED for each in largest_requests(key, api.max_version)]
        if not frames:  # an API without arrays
            return contextlib.nullcontext()
        return asking(aim.kafka, frames, connections=2)

    return attack


NAMED: dict[str, Attack] = {
    "metadata": _metadata,
    "metadata-pipelined": _metadata_pipelined,
    "recompress": _recompress,
    "deaf": _deaf,
    "parked": _parked,
    "joins": _joins,
    "metrics": _metrics,
    "refusals": _refusals,
}
BY_API: dict[str, Attack] = {f"{API}{api.name}": _largest(key) for key, api in load_apis().items()}
AT_ROCKETMQ = REMOTING | BY_CODE
ATTACKS = NAMED | KEPT | SETTINGS | TRANSACTIONS | SHARES | ASKERS | CLOSED
ATTACKS |= CLOSED_FRONTS | CLOSED_HTTP | BY_API | AT_ROCKETMQ
