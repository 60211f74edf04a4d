"""Attacks by transactions: their ids, their partitions, their time-outs, and questions about them.

txn-ids         ids of a kilobyte that nobody has used, 50 on their way on each of ten connections
txn-lists       questions about 60,000 ids whose filters admit none, or are 90,000 themselves
txn-wide        ten transactions that grow to 5,000 topics, one after another, and end
txn-timeouts    twenty transactions of 5,000 partitions that are all open for too long at once
txn-many        20,000 transactions of a partition that are all open for too long at once
txn-produce     Produce with 13,990 batches of a transaction for one partition, of one producer or
                of as many
txn-keys        FindCoordinator with 120 ids of 32 kB
txn-fencing     ten pairs of producers that take one id from each other
"""

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import TRANSACTIONAL
from penstock.record.build import Record, build_batch
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    RETRY_SECONDS,
    Address,
    Aim,
    Attack,
    asking,
    exactly,
    request,
    some,
)
from reliability.attacks.attack_kept import sending

TRANSACTED = "transacted"
PARTITIONS = 5_000
WIDE_IDS, OPEN_IDS, LISTED_IDS, MANY_IDS = 10, 20, 60_000, 20_000
TRIES = 600
TOGETHER = 100
FILTERS = 90_000
BATCHES = 13_990
KEYS, KEY_CHARS = 120, 32_000
OPEN_MS, OPENED_PER_MS = 8_000, 2
_PRODUCER = struct.Struct(">ihqh")
"""The body of an answer to InitProducerId version 1: throttled, error, producer id, epoch."""
Producer = tuple[int, int]


def _init(name: str, timeout_ms: int = 60_000) -> bytes:
    fields = {"transactional_id": name, "transaction_timeout": timeout_ms}
    return request(ApiKey.INIT_PRODUCER_ID, 1, fields)


def add(name: str, producer: Producer, topics: dict[str, list[int]]) -> bytes:
    fields = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": [
            {"name": topic, "partitions": partitions} for topic, partitions in topics.items()
        ],
    }
    return request(ApiKey.ADD_PARTITIONS_TO_TXN, 0, fields)


def end(name: str, producer: Producer, *, committed: bool = True) -> bytes:
    fields = {
        "transactional_id": name,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "committed": committed,
    }
    return request(ApiKey.END_TXN, 1, fields)


def answers(connection: socket.socket, frames: list[bytes]) -> list[bytes]:
    """Send all, and return the bodies of as many answers."""
    for frame in frames:
        connection.sendall(frame)
    return [_whole(connection, int.from_bytes(exactly(connection, 4), "big"))[4:] for _ in frames]


def _whole(connection: socket.socket, size: int) -> bytes:
    read = bytearray()
    while len(read) < size:
        read += some(connection, size - len(read))
    return bytes(read)


def begun(address: Address, times: dict[str, int]) -> dict[str, Producer]:
    """Return producers of the names that are coordinated there; `times` are their time-outs."""
    names = [*times]
    found: dict[str, Producer] = {}
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        _ready(connection)
        for at in range(0, len(names), TOGETHER):
            left = names[at : at + TOGETHER]
            for _ in range(TRIES):
                bodies = answers(connection, [_init(name, times[name]) for name in left])
                again = []
                for name, body in zip(left, bodies, strict=True):
                    _, error, *producer = _PRODUCER.unpack(body)
                    if not error:
                        found[name] = (producer[0], producer[1])
                    elif error != ErrorCode.NOT_COORDINATOR:
                        again.append(name)
                if not again:
                    break
                left = again
                time.sleep(RETRY_SECONDS)
    return found


def _ready(connection: socket.socket) -> None:
    """Ask until transactions are there: the first question makes their topic."""
    frame = request(ApiKey.FIND_COORDINATOR, 1, {"key": "first", "key_type": 1})
    for _ in range(TRIES):
        (body,) = answers(connection, [frame])
        if not any(body[4:6]):
            return
        time.sleep(RETRY_SECONDS)
    raise TimeoutError("there is no coordinator of transactions")


def added(address: Address, frames: list[bytes]) -> None:
    """Send each until it is taken."""
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        for at in range(0, len(frames), TOGETHER):
            left = frames[at : at + TOGETHER]
            for _ in range(TRIES):
                bodies = answers(connection, left)
                # the code of the last partition tells of all
                left = [one for one, body in zip(left, bodies, strict=True) if any(body[-2:])]
                if not left:
                    break
                time.sleep(RETRY_SECONDS)


@contextlib.contextmanager
def _prepared(address: Address) -> Iterator[socket.socket]:
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        _ready(connection)
        yield connection


def _ids(aim: Aim) -> contextlib.AbstractContextManager[object]:
    with _prepared(aim.kafka):
        numbers = itertools.count()

    def next_ones() -> list[bytes]:
        return [_init(f"{next(numbers):08}\U0001f600" + "i" * 1_012) for _ in range(50)]

    return sending(aim.kafka, next_ones, connections=10)


def _lists(aim: Aim) -> contextlib.AbstractContextManager[object]:
    begun(aim.kafka, {f"listed-{one}": 60_000 for one in range(LISTED_IDS)})
    none = _list(states=[], producers=[-5])
    producers = _list(states=[], producers=list(range(FILTERS)))
    states = _list(states=[f"s{one}" for one in range(FILTERS)], producers=[])
    every = _list(states=[], producers=[])
    return asking(aim.kafka, [[none] * 4, [producers], [states], [every]], connections=4)


def _list(states: list[str], producers: list[int]) -> bytes:
    fields = {"state_filters": states, "producer_id_filters": producers, "duration_filter": -1}
    return request(ApiKey.LIST_TRANSACTIONS, 1, fields)


@contextlib.contextmanager
def _wide(aim: Aim) -> Iterator[None]:
    producers = begun(aim.kafka, {f"wide-{one}": 900_000 for one in range(3 * WIDE_IDS)})
    names = [*producers][:WIDE_IDS]
    turns = itertools.cycle(names)

    def next_ones() -> list[bytes]:
        name = next(turns)
        half = {TRANSACTED: list(range(PARTITIONS - TOGETHER))}
        grown = [
            add(name, producers[name], {TRANSACTED: [PARTITIONS - TOGETHER + one]})
            for one in range(TOGETHER)
        ]
        return [add(name, producers[name], half), *grown, end(name, producers[name])]

    with sending(aim.kafka, next_ones, connections=4):
        yield


def _opened(count: int, partitions: int) -> Attack:
    """Return an attack that opens so many, one after another, which time out at one time."""

    @contextlib.contextmanager
    def lasting(address: Address, producers: dict[str, Producer]) -> Iterator[None]:
        topics = {TRANSACTED: list(range(partitions))}
        added(address, [add(name, one, topics) for name, one in producers.items()])
        yield

    def attack(aim: Aim) -> contextlib.AbstractContextManager[object]:
        times = {f"open-{one}": OPEN_MS + (count - one) // OPENED_PER_MS for one in range(count)}
        return lasting(aim.kafka, begun(aim.kafka, times))

    return attack


def _produce(aim: Aim) -> contextlib.AbstractContextManager[object]:
    with _prepared(aim.kafka):
        pass
    same = _batches(lambda _: 5_000_000)
    different = _batches(lambda one: 6_000_000 + one)
    return asking(aim.kafka, [[same], [different]], connections=2)


def _batches(producer_of: Any) -> bytes:
    batches = [{"index": 0, "records": _begun_by(producer_of(one))} for one in range(BATCHES)]
    data = [{"name": TRANSACTED, "partition_data": batches}]
    fields = {"transactional_id": "attack", "acks": 1, "timeout": 30_000, "topic_data": data}
    return request(ApiKey.PRODUCE, 7, fields)


def _begun_by(producer_id: int) -> bytes:
    return build_batch(
        [Record(None, b"v")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )


def _keys(aim: Aim) -> contextlib.AbstractContextManager[object]:
    keys = [f"{one:04}" + "k" * KEY_CHARS for one in range(KEYS)]
    frame = request(ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": keys})
    return asking(aim.kafka, [[frame] * 4], connections=2)


def _fencing(aim: Aim) -> contextlib.AbstractContextManager[object]:
    with _prepared(aim.kafka):
        pass
    batches = [[_init(f"fenced-{one}")] * 50 for one in range(10)]
    return asking(aim.kafka, batches, connections=20)


TRANSACTIONS: dict[str, Attack] = {
    "txn-ids": _ids,
    "txn-lists": _lists,
    "txn-wide": _wide,
    "txn-timeouts": _opened(OPEN_IDS, PARTITIONS),
    "txn-many": _opened(MANY_IDS, 1),
    "txn-produce": _produce,
    "txn-keys": _keys,
    "txn-fencing": _fencing,
}
OWN_TOPICS = dict.fromkeys(
    ("txn-wide", "txn-timeouts", "txn-many", "txn-produce"), (TRANSACTED, PARTITIONS)
)
"""Topics that must be there, and of how many partitions."""
IDS_STAY = frozenset({"txn-ids", "txn-lists"})
"""What these make is meant to stay for a week, within its bound."""
