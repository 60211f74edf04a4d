"""Usual records as messages: the compiled twin writes what the interpreted way does, or nothing."""

import random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.grpc.consuming import compiled, usual
from penstock.grpc.consuming.delivered import Told, encoded_messages
from penstock.grpc.consuming.times import TIME_MS_MAX
from penstock.record.read import DecodedRecord
from penstock.remoting.mapping import SYSTEM
from penstock.remoting.pop.popping import Part, Popped
from penstock.remoting.pop.records import Seen
from penstock.shares.state import ShareKey

TOLD = Told("topic", "[::1]:8081", 60_500)
HEADERS_MAX, TEXT_MAX = 16, 1_200
"""As in the twin."""
twin = pytest.mark.skipif(
    compiled.usual_messages is usual.usual_messages, reason="the compiled twin was not built"
)


def popped(*records: DecodedRecord, count: int = 1, nonce: int = 7, partition: int = 3) -> Popped:
    key = ShareKey("rmq.pop.g", b"0123456789abcdef", partition)
    hosted: Any = SimpleNamespace(partition=partition)
    return Popped(Part(hosted, key, partition), nonce, [(Seen(one), count) for one in records], 0)


def interpreted(some: Popped) -> list[bytes]:
    with patch("penstock.grpc.consuming.delivered.usual_messages", usual.usual_messages):
        return encoded_messages(some, TOLD)


def by_the_twin(some: Popped) -> list[bytes | None]:
    """Return what the twin alone has written of each."""
    made: list[list[bytes | None]] = []

    def spy(*told: Any) -> list[bytes | None]:
        made.append(compiled.usual_messages(*told))
        return made[-1]

    with patch("penstock.grpc.consuming.delivered.usual_messages", spy):
        encoded_messages(some, TOLD)
    return made[0]


def record(
    *headers: tuple[str, bytes | None],
    key: bytes | None = None,
    value: bytes | None = b"body",
    offset: int = 5,
    time_ms: int = 1_700_000_000_123,
) -> DecodedRecord:
    return DecodedRecord(offset, time_ms, key, value, headers)


NAMES = ["rmq.tag", "rmq.keys", "rmq.id", "rmq.bh", "rmq.", "rmq.born", "rmq.times", "rmq.group"]
NAMES += ["colour", "größe", "n\x01", "", "TAGS", "PGROUP", "__SHARDINGKEY", "rm", "x" * 130]
NAMES += ["rmq.__transactionId__", "rmq.TIMER_DELIVER_MS", "CLUSTER", "__transactionId__"]
VALUES = [b"red", b"a b", b"  a  b ", b" ", b"\xc3\xa9", b"\xff", b"", None, b"n\n", b"1\x02"]
VALUES += [b"127.0.0.1 80", b"::1 9", b"9" * 65, b"x" * 127, b"x" * 128, b"x" * 700, b"\x7f"]
VALUES += [b"\xed\xa0\x80", b"\xe2\x80\xa8", b"a\x1cb", b"1700000000000", b"\xc2\xa0a"]
KEYS = [None, None, b"", b"k", b"group one", b"x" * 63, b"x" * 64, b"\xc3\xa9", b"\xff", b"\t"]
TIMES = [0, 1, 999, 1_000, 1_700_000_000_000, TIME_MS_MAX, TIME_MS_MAX + 1, (1 << 63) - 1, -1]
OFFSETS = [0, 1, 127, 128, 1 << 31, 1 << 40, (1 << 63) - 1]


def some_record(rng: random.Random) -> DecodedRecord:
    names = NAMES if rng.random() < 0.6 else ["rmq.tag", "rmq.keys", "rmq.id", "rmq.bh", "colour"]
    values = VALUES if rng.random() < 0.6 else VALUES[:3]
    return record(
        *((rng.choice(names), rng.choice(values)) for _ in range(rng.randrange(5))),
        key=rng.choice(KEYS),
        value=rng.choice(
            [b"", b"x" * 127, b"x" * 20_000, rng.randbytes(9), rng.randbytes(9), None]
        ),
        offset=rng.choice(OFFSETS),
        time_ms=rng.choice(TIMES),
    )


@twin
@pytest.mark.parametrize("seed", range(8))
def test_what_the_twin_writes_is_what_the_interpreted_way_writes(seed: int) -> None:
    rng = random.Random(seed)
    usual_ones = 0
    for _ in range(1_500):
        some = popped(
            some_record(rng),
            count=rng.choice([1, 2, 127, 128, 250]),
            nonce=rng.randrange(1 << 32),
            partition=rng.choice([0, 1, 127, 128, (1 << 31) - 1]),
        )
        (made,) = by_the_twin(some)
        usual_ones += made is not None
        assert made is None or [made] == interpreted(some), some
    assert usual_ones > 150, "or nearly nothing was compared"


USUAL = [
    record(),
    record(("rmq.tag", b"tag"), ("rmq.keys", b"key-1"), ("colour", b"red"), value=b"x" * 1_024),
    record(("rmq.id", b"01AB"), ("rmq.bh", b"127.0.0.1 80"), key=b"group"),
    record(key=b"x" * 64),
    record(("rmq.tag", "größe".encode()), ("größe", "größe\n".encode()), value=b""),
    record(("rmq.keys", b" a  b ")),
    record(("rmq.bh", b"nobody")),
    record(*((f"n{at}", b"v") for at in range(HEADERS_MAX))),
    record(("n", b"v" * (TEXT_MAX - 1))),
    record(("rmq.keys", b"k " * (TEXT_MAX // 2 - 5)), ("n", b"v")),
]


@twin
def test_usual_records_are_written_by_the_twin() -> None:
    made = by_the_twin(popped(*USUAL))
    assert made == interpreted(popped(*USUAL))
    assert None not in made


@twin
@pytest.mark.parametrize("name", sorted(SYSTEM))
def test_no_header_with_the_name_of_a_system_property_is_shown(name: str) -> None:
    some = popped(record((name, b"v")))
    assert by_the_twin(some) == [None]
    assert encoded_messages(some, TOLD) == interpreted(some)


UNUSUAL = [
    record(value=None),
    record(("rmq.tag", b"a"), ("rmq.tag", b"b")),
    record(("n", b"a"), ("n", b"b")),
    record(*((f"n{at}", b"v") for at in range(HEADERS_MAX + 1))),
    record(("n", b"v" * TEXT_MAX)),
    record(("rmq.times", b"2")),
    record(("rmq.bh", b"9" * 65)),
    record(("n", b"\xff")),
    record(key=b"\xc3\xa9"),
    record(key=b"a\x7fb"),
    record(("rmq.keys", b"a\x7fb")),
    record(time_ms=-1),
]


@twin
def test_records_that_are_not_usual_are_left_to_the_interpreted_way() -> None:
    some = popped(*UNUSUAL)
    assert by_the_twin(some) == [None] * len(UNUSUAL)
    assert encoded_messages(some, TOLD) == interpreted(some)


@twin
def test_an_answer_may_have_usual_messages_among_others_in_their_order() -> None:
    some = popped(USUAL[1], UNUSUAL[0], USUAL[2])
    first, second, third = by_the_twin(some)
    assert (first is None, second is None, third is None) == (False, True, False)
    assert encoded_messages(some, TOLD) == interpreted(some)


def test_a_usual_message_is_read_by_protobuf_as_it_was_meant() -> None:
    headers = (("rmq.tag", b"tag"), ("rmq.keys", b"a b"), ("rmq.bh", b"127.0.0.1 80"), ("n", b"v"))
    (data,) = encoded_messages(popped(record(*headers, key=b"g"), count=2), TOLD)
    message = service.ReceiveMessageResponse.FromString(data).message
    own = message.system_properties
    assert (message.topic.name, message.body) == ("topic", b"body")
    assert dict(message.user_properties) == {"__SHARDINGKEY": "g", "n": "v"}
    assert (own.tag, list(own.keys), own.message_group) == ("tag", ["a", "b"], "g")
    assert (own.message_type, own.delivery_attempt) == (definition.FIFO, 2)
    assert own.body_digest.type == definition.MD5
    assert own.body_digest.checksum == "841A2D689AD86BD1611447453C22C6FC"
    assert own.born_timestamp.ToMilliseconds() == own.store_timestamp.ToMilliseconds()
    assert (own.born_host, own.queue_id, own.queue_offset) == ("127.0.0.1:80", 3, 5)
