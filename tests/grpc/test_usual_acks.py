"""Usual acknowledgements: the compiled twin reads what the interpreted way does, or nothing."""

import random

import pytest

from penstock.base.errors import PlatformError
from penstock.grpc.consuming import compiled, usual
from penstock.grpc.consuming.receipts import Receipt, read_receipt, write_receipt
from penstock.grpc.methods.ack_message import encoded_outcomes
from penstock.grpc.proto.messages import AckMessageEntry, AckMessageRequest, Resource, Status
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode, encode

OK = Status(code=Code.OK, message="OK")
OK_BYTES = encode(OK)
ENTRIES_MAX = 64
"""As in the twin."""
twin = pytest.mark.skipif(
    compiled.read_acks is usual.read_acks, reason="the compiled twin was not built"
)
Read = tuple[str, str, int, int, list[int], bytes]


def handle(offset: int = 5, *, partition: int = 3, number: int = -7) -> str:
    return write_receipt(partition, offset, number).decode()


def entry(offset: int = 5, message_id: str = "id", **place: int) -> AckMessageEntry:
    return AckMessageEntry(message_id=message_id, receipt_handle=handle(offset, **place))


def request(*entries: AckMessageEntry, group: str = "g", topic: str = "größe") -> bytes:
    return encode(
        AckMessageRequest(group=Resource(name=group), topic=Resource(name=topic), entries=entries)
    )


def interpreted(data: bytes) -> Read | None:
    """Return what the request says, where its messages are of one hand-out."""
    try:
        told = decode(AckMessageRequest, data)
        receipts = [read_receipt(one.receipt_handle) for one in told.entries]
    except PlatformError:
        return None
    hand_outs = {(one.partition, one.number) for one in receipts}
    if len(hand_outs) != 1 or told.group is None or told.topic is None:
        return None
    if told.group.resource_namespace or told.topic.resource_namespace:
        return None
    offsets = [one.offset for one in receipts]
    answer = encoded_outcomes(OK, told.entries, [OK] * len(offsets))
    return told.group.name, told.topic.name, *hand_outs.pop(), offsets, answer


USUAL = [
    request(entry()),
    request(*(entry(1 << at, f"{at:032X}") for at in range(63))),
    request(entry(0, ""), entry((1 << 63) - 1), entry(0)),
    request(entry(partition=(1 << 32) - 1, number=-(1 << 31))),
    request(entry(partition=0, number=(1 << 31) - 1), topic="t" * 255),
    request(entry(message_id="i" * 200)),
    request(*(entry(at) for at in range(ENTRIES_MAX))),
]
UNUSUAL = [
    b"",
    request(),
    request(entry(), entry(partition=4)),
    request(entry(), entry(number=8)),
    request(entry(message_id="é")),
    request(AckMessageEntry(message_id="id")),
    request(AckMessageEntry(receipt_handle=handle()[:-1])),
    request(AckMessageEntry(receipt_handle=handle().replace("A", "+", 1))),
    request(AckMessageEntry(receipt_handle="C" + handle()[1:])),
    request(AckMessageEntry(receipt_handle=write_receipt(3, (1 << 63), 1).decode())),
    request(*(entry(at) for at in range(ENTRIES_MAX + 1))),
    request(entry()) + b"\x20\x01",
    request(entry()) + request(entry()),
    encode(AckMessageRequest(topic=Resource(name="t"), entries=(entry(),))),
    encode(AckMessageRequest(group=Resource(name="g"), entries=(entry(),))),
    encode(
        AckMessageRequest(
            group=Resource(name="g", resource_namespace="n"),
            topic=Resource(name="t"),
            entries=(entry(),),
        )
    ),
    b"\x0a\x03\x12\x01\xff"
    + encode(AckMessageRequest(topic=Resource(name="t"), entries=(entry(),))),
]


@twin
@pytest.mark.parametrize("data", USUAL, ids=range(len(USUAL)))
def test_a_usual_request_is_read_by_the_twin(data: bytes) -> None:
    assert interpreted(data) is not None
    assert compiled.read_acks(data, OK_BYTES) == interpreted(data)


@pytest.mark.parametrize("data", UNUSUAL, ids=range(len(UNUSUAL)))
def test_what_is_not_usual_is_left_to_the_interpreted_way(data: bytes) -> None:
    assert compiled.read_acks(data, OK_BYTES) is None


@twin
@pytest.mark.parametrize("seed", range(8))
def test_damaged_requests_are_read_as_the_interpreted_way_reads_them_or_not(seed: int) -> None:
    rng = random.Random(seed)
    read = 0
    for _ in range(3_000):
        data = bytearray(rng.choice(USUAL + UNUSUAL[1:]))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 10, 18, 26, 65, 127, 128, 255))
        cut = bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data)
        found = compiled.read_acks(cut, OK_BYTES)
        read += found is not None
        assert found is None or found == interpreted(cut), cut
    assert read > 250, "or nearly nothing was compared"


@twin
def test_each_number_of_a_receipt_is_read_as_it_was_written() -> None:
    rng = random.Random(0)
    for _ in range(2_000):
        told = Receipt(rng.getrandbits(32), rng.getrandbits(63), rng.getrandbits(32) - (1 << 31))
        one = AckMessageEntry(receipt_handle=write_receipt(*told).decode())
        found = compiled.read_acks(request(one), OK_BYTES)
        assert found is not None
        assert found[2:5] == (told.partition, told.number, [told.offset])


@twin
def test_ids_of_each_length_are_told_again_as_they_came() -> None:
    for length in range(1, 300):
        data = request(entry(message_id="i" * length))
        assert compiled.read_acks(data, OK_BYTES) == interpreted(data)
