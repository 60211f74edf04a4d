"""Attacks by what a node keeps of its clients, each a context that lasts as long as its block.

sessions        200 connections that each open one fetch session of 5,000 partitions after another
positions       positions with 4 kB of metadata each, for one group after another
groups          a position for one new group after another, 32 on their way
producer-ids    ten connections that ask for ids of producers, 50 on their way
producers       batches of one new producer after another, 125,000 in all
silent          3,000 connections that say nothing
drip            1,000 connections that send a byte a second of a frame of a mebibyte
garbage         SASL handshakes, unknown versions and noise, a connection for each
"""

import contextlib
import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator

from harness.bad_input import floods
from harness.bad_input.frame import framed
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    RETRY_SECONDS,
    Address,
    Aim,
    Attack,
    Wait,
    asking,
    exactly,
    exchanging,
    plain,
    request,
)

COMMITTED, PRODUCED = "committed", "produced"
PARTITIONS = 500
OWN_TOPIC = {
    "positions": (COMMITTED, PARTITIONS),
    "groups": (COMMITTED, 1),
    "producers": (PRODUCED, PARTITIONS),
}
"""Topics that must be there, and of how many partitions."""
STAYS = frozenset({"positions", "groups", "producers"})
"""What these make is meant to stay, for a week or a day, within its bound."""
COORDINATOR_TRIES = 600
METADATA = "m" * 4_096
SESSION_CONNECTIONS, SESSION_PARTITIONS = 200, 5_000
PRODUCE_FRAMES = 250
SILENT, DRIPS = 3_000, 1_000


def find_coordinator(address: Address) -> None:
    """Ask until groups are there: the first question makes their topic."""
    frame = request(ApiKey.FIND_COORDINATOR, 0, {"key": "group-0"})
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        for _ in range(COORDINATOR_TRIES):
            connection.sendall(frame)
            size = int.from_bytes(exactly(connection, 4), "big")
            error_code = exactly(connection, size)[4:6]
            if not any(error_code):
                return
            time.sleep(RETRY_SECONDS)
    raise TimeoutError("there is no coordinator")


@contextlib.contextmanager
def sending(address: Address, make: Callable[[], list[bytes]], connections: int) -> Iterator[None]:
    """Exchange what `make` gives, again and again, on so many connections at once."""

    with exchanging(lambda: plain(address), lambda: make, connections):
        yield


def _sessions(aim: Aim) -> contextlib.AbstractContextManager[object]:
    partitions = [
        {
            "partition": one,
            "current_leader_epoch": -1,
            "fetch_offset": one << 32,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        for one in range(SESSION_PARTITIONS)
    ]
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": 0,
        "topics": [{"topic": "unknown", "partitions": partitions}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    frame = request(ApiKey.FETCH, 11, fields)
    return asking(aim.kafka, [[frame]], connections=SESSION_CONNECTIONS)


def _commit(group: str, count: int, metadata: str) -> bytes:
    partitions = [
        {"partition_index": one, "committed_offset": 7, "committed_metadata": metadata}
        for one in range(count)
    ]
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time_ms": -1,
        "topics": [{"name": COMMITTED, "partitions": partitions}],
    }
    return request(ApiKey.OFFSET_COMMIT, 2, fields)


def _positions(aim: Aim) -> contextlib.AbstractContextManager[object]:
    find_coordinator(aim.kafka)
    numbers = itertools.count()
    return sending(
        aim.kafka,
        lambda: [_commit(f"positions-{next(numbers)}", PARTITIONS, METADATA)],
        connections=4,
    )


def _groups(aim: Aim) -> contextlib.AbstractContextManager[object]:
    find_coordinator(aim.kafka)
    numbers = itertools.count()
    return sending(
        aim.kafka,
        lambda: [_commit(f"group-{next(numbers)}", 1, "") for _ in range(32)],
        connections=8,
    )


def _producer_ids(aim: Aim) -> contextlib.AbstractContextManager[object]:
    fields = {"transactional_id": None, "transaction_timeout": 1_000}
    frame = request(ApiKey.INIT_PRODUCER_ID, 0, fields)
    return asking(aim.kafka, [[frame] * 50], connections=10)


def _producers(aim: Aim) -> contextlib.AbstractContextManager[object]:
    """Return an attack with as many producers as frames and batches: built before it begins."""
    frames = [_of_new_producers(first * PARTITIONS) for first in range(PRODUCE_FRAMES)]
    return asking(aim.kafka, [[frame] for frame in frames], connections=2)


def _of_new_producers(first: int) -> bytes:
    """Return a request with a batch for each partition, of a producer of its own."""
    batches = [
        {"index": one, "records": _begun_by(1_000_000 + first + one)} for one in range(PARTITIONS)
    ]
    data = [{"name": PRODUCED, "partition_data": batches}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 30_000, "topic_data": data}
    return request(ApiKey.PRODUCE, 7, fields)


def _begun_by(producer_id: int) -> bytes:
    records = [Record(None, b"v")]
    return build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0)


@contextlib.contextmanager
def _silent(aim: Aim) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(SILENT):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(aim.kafka, 5.0))
        yield


def _drip(aim: Aim) -> contextlib.AbstractContextManager[object]:
    return floods.slow_writers(aim.kafka, DRIPS)


@contextlib.contextmanager
def _garbage(aim: Aim) -> Iterator[None]:
    wrong = itertools.cycle(_wrong_frames())

    def once(wait: Wait) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(aim.kafka, ANSWER_SECONDS) as connection,
        ):
            connection.settimeout(1.0)
            connection.sendall(next(wrong))
            connection.recv(1 << 16)
        wait(floods.PAUSE_SECONDS)

    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(floods.repeating(once))
        yield


def _wrong_frames() -> list[bytes]:
    sasl = struct.pack(">hhih", 17, 1, 1, -1) + b"\0\5PLAIN"
    newer = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 1, -1)
    endless = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1) + b"\0" + b"\xff" * 10
    tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500)
    web = b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n"
    noise = [framed(os.urandom(size)) for size in (1, 10, 1_000, 100_000)]
    return [framed(sasl), framed(sasl[:9]), framed(newer), framed(endless), tls, web, *noise]


KEPT: dict[str, Attack] = {
    "sessions": _sessions,
    "positions": _positions,
    "groups": _groups,
    "producer-ids": _producer_ids,
    "producers": _producers,
    "silent": _silent,
    "drip": _drip,
    "garbage": _garbage,
}
