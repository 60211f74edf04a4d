"""Attacks from the Kafka port and the metrics port, each a context that lasts as long as its block.

    metadata             ten connections that ask for 100,000 unknown topics, again and again
    metadata-pipelined   one connection with fifty such requests on their way
    recompress           4.3 MB that unpack to 64 MB, for a topic that compresses anew
    deaf                 200 connections with 64 fetches each that never read
    parked               100 fetches that wait on thousands of partitions each
    joins                9,600 groups, each joined by a member with 60 kB of metadata
    metrics              3,000 idle connections on the metrics port
    api-KEY              the largest legal requests of one API, from its schema, on two connections

Each runs in a process of its own. What a node refuses, by ending the connection, is tried again.
"""

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.badinput import floods
from tests.badinput.frame import framed
from tests.badinput.largest import largest_requests

from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request
from penstock.record.build import Record, build_batch
from penstock.record.compression import GZIP

ANSWER_SECONDS = 30.0
RETRY_SECONDS = 0.05
COORDINATOR_TRIES = 600
READ_BYTES = 1 << 20
RECOMPRESSED, FULL, WIDE = "recompressed", "full", "wide"
WIDE_TOPICS = 10
UNPACKED_BYTES = 64_000_000
NOISE_BYTES = 4_300_000
UNKNOWN_TOPICS = 100_000
JOINS, JOIN_CONNECTIONS, JOIN_BYTES = 9_600, 96, 60_000
METRICS_CONNECTIONS = 3_000
API = "api-"

Address = tuple[str, int]
Wait = Callable[[float], bool]


class Aim(NamedTuple):
    """What is attacked, and how large its topics of many partitions are."""

    kafka: Address
    metrics: Address
    wide_partitions: int


Attack = Callable[[Aim], contextlib.AbstractContextManager[object]]


def _request(key: ApiKey, version: int, fields: dict[str, Any]) -> bytes:
    head = request_header(key, version, correlation_id=7, client_id="attack")
    return framed(head + encode_request(key, version, fields))


def _exchange(connection: socket.socket, frames: list[bytes]) -> None:
    """Send all, then read as many answers."""
    for frame in frames:
        connection.sendall(frame)
    for _ in frames:
        left = int.from_bytes(_exactly(connection, 4), "big")
        while left:
            left -= len(_some(connection, min(left, READ_BYTES)))


def _exactly(connection: socket.socket, size: int) -> bytes:
    taken = connection.recv(size, socket.MSG_WAITALL)
    if len(taken) < size:
        raise ConnectionResetError("closed by the node")
    return taken


def _some(connection: socket.socket, size: int) -> bytes:
    taken = connection.recv(size)
    if not taken:
        raise ConnectionResetError("closed by the node")
    return taken


@contextlib.contextmanager
def _asking(address: Address, batches: list[list[bytes]], connections: int) -> Iterator[None]:
    """Exchange one batch of frames after the other, on so many connections at once."""

    def worker() -> Callable[[Wait], None]:
        turn = itertools.cycle(batches)
        held: list[socket.socket] = []

        def once(wait: Wait) -> None:
            try:
                if not held:
                    held.append(socket.create_connection(address, ANSWER_SECONDS))
                _exchange(held[0], next(turn))
            except OSError:
                while held:
                    held.pop().close()
                wait(RETRY_SECONDS)

        return once

    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(floods.repeating(worker()))
        yield


def _unknown_topics() -> bytes:
    topics = [{"name": f"unknown-{number}"} for number in range(UNKNOWN_TOPICS)]
    fields = {"topics": topics, "allow_auto_topic_creation": False}
    return _request(ApiKey.METADATA, 4, fields)


def _metadata(aim: Aim) -> contextlib.AbstractContextManager[object]:
    return _asking(aim.kafka, [[_unknown_topics()]], connections=10)


def _metadata_pipelined(aim: Aim) -> contextlib.AbstractContextManager[object]:
    return _asking(aim.kafka, [[_unknown_topics()] * 50], connections=1)


def _recompress(aim: Aim) -> contextlib.AbstractContextManager[object]:
    partition = {"index": 0, "records": _packed_batch()}
    data = [{"name": RECOMPRESSED, "partition_data": [partition]}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": data}
    return _asking(aim.kafka, [[_request(ApiKey.PRODUCE, 7, fields)]], connections=1)


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
    return _asking(aim.kafka, [[_fetch(topics, max_wait=1_000)]], connections=100)


def _fetch(topics: list[dict[str, Any]], *, max_wait: int) -> bytes:
    fields = {
        "replica_id": -1,
        "max_wait": max_wait,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "topics": topics,
    }
    return _request(ApiKey.FETCH, 4, fields)


@contextlib.contextmanager
def _joins(aim: Aim) -> Iterator[None]:
    """Join, read no answer and go: what stays is what the node keeps of such members."""
    _find_coordinator(aim.kafka)
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


def _find_coordinator(address: Address) -> None:
    """Ask until groups are there: the first question makes their topic."""
    frame = _request(ApiKey.FIND_COORDINATOR, 0, {"key": "group-0"})
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        for _ in range(COORDINATOR_TRIES):
            connection.sendall(frame)
            size = int.from_bytes(_exactly(connection, 4), "big")
            error_code = _exactly(connection, size)[4:6]
            if not any(error_code):
                return
            time.sleep(RETRY_SECONDS)
    raise TimeoutError("there is no coordinator")


def _join(group_id: str) -> bytes:
    fields = {
        "group_id": group_id,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(JOIN_BYTES)}],
    }
    return _request(ApiKey.JOIN_GROUP, 3, fields)


@contextlib.contextmanager
def _metrics(aim: Aim) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(METRICS_CONNECTIONS):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(aim.metrics, 5.0))
        yield


def _largest(key: int) -> Attack:
    def attack(aim: Aim) -> contextlib.AbstractContextManager[object]:
        api = load_apis()[key]
        frames = [[each.frame] for each in largest_requests(key, api.max_version)]
        return _asking(aim.kafka, frames, connections=2)

    return attack


NAMED: dict[str, Attack] = {
    "metadata": _metadata,
    "metadata-pipelined": _metadata_pipelined,
    "recompress": _recompress,
    "deaf": _deaf,
    "parked": _parked,
    "joins": _joins,
    "metrics": _metrics,
}
BY_API: dict[str, Attack] = {f"{API}{api.name}": _largest(key) for key, api in load_apis().items()}
ATTACKS = NAMED | BY_API
