"""Receipts of popped messages, and acknowledgements of many: written, read, and refused."""

from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.remoting.errors import BadReceipt, MalformedBody
from penstock.remoting.pop.batch_acks import ACKS_MAX, BASE64_MAX, OFFSETS_MAX, read_batch
from penstock.remoting.pop.receipts import (
    Receipt,
    nonce_of,
    number_of,
    offsets_info,
    read_receipt,
    start_info,
    write_receipt,
)
from penstock.shares.state import ShareKey

INT64 = st.integers(0, (1 << 63) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
NAMES = st.from_regex(r"\Aset-[0-9]{1,10}\Z")
RECEIPTS = st.builds(Receipt, INT64, INT64, INT64, INT32, NAMES, st.integers(0, 1 << 22), INT64)
KEYS = st.builds(
    ShareKey, st.text(max_size=20), st.binary(min_size=16, max_size=16), st.integers(0, 1 << 22)
)
NONCES = st.integers(0, (1 << 32) - 1)
KEY = ShareKey("rmq.pop.g", bytes(16), 0)


@given(RECEIPTS)
def test_a_receipt_is_read_as_it_was_written(receipt: Receipt) -> None:
    text = write_receipt(receipt)
    assert len(text.split(" ")) == 8, "as many parts as clients take apart"
    assert read_receipt(text) == receipt


@given(KEYS, NONCES)
def test_the_number_of_a_hand_out_goes_through_an_int32(key: ShareKey, nonce: int) -> None:
    number = number_of(key, nonce)
    assert -(1 << 31) <= number < 1 << 31
    assert nonce_of(key, number) == nonce


@pytest.mark.parametrize(
    "other",
    [KEY._replace(group="rmq.pop.h"), KEY._replace(topic_id=b"1" * 16), KEY._replace(partition=1)],
)
def test_the_number_of_another_place_is_none_of_this_one(other: ShareKey) -> None:
    assert nonce_of(other, number_of(KEY, 5)) != 5


@given(st.text())
def test_a_text_is_read_as_it_is_or_refused_by_name(text: str) -> None:
    try:
        receipt = read_receipt(text)
    except BadReceipt:
        return
    assert read_receipt(write_receipt(receipt)) == receipt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2 3 4 0 set-1 5",
        "1 2 3 4 0 set-1 5 6 7",
        "1 2 3 4 1 set-1 5 6",
        "1 2 3 4 0  5 6",
        "a 2 3 4 0 set-1 5 6",
        "1 2 3 4 0 set-1 5 ٣",
        f"1 2 3 4 0 set-1 5 {1 << 63}",
        f"1 2 3 4 0 set-1 5 {'9' * 100_000}",
    ],
)
def test_what_is_no_receipt_is_refused(text: str) -> None:
    with pytest.raises(BadReceipt, match="invalid receipt handle: "):
        read_receipt(text)


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
def test_a_number_that_is_no_int32_is_refused(number: int) -> None:
    with pytest.raises(BadReceipt):
        nonce_of(KEY, number)


def test_fields_of_an_answer_are_as_clients_read_them() -> None:
    assert start_info(3, 70) == "0 3 70"
    assert offsets_info(3, [70, 72]) == "0 3 70,72"


def batch(*acks: dict[str, object]) -> bytes:
    return msgspec.json.encode({"brokerName": "set-1", "acks": acks})


def one_ack(bits: str) -> dict[str, object]:
    return {"b": bits, "c": "g", "it": 10, "pt": 9, "q": 1, "r": "0", "rq": -77, "so": 5, "t": "t"}


def test_acknowledgements_of_a_hand_out_are_read_as_java_writes_them() -> None:
    read = read_batch(batch(one_ack("CQAAAAAAAABA")))
    (ack,) = read.acks
    assert read.broker_name == "set-1"
    assert (ack.group, ack.topic, ack.queue_id, ack.number, ack.retry) == ("g", "t", 1, -77, "0")
    assert ack.offsets == [5, 8, 75]


@given(st.sets(st.integers(0, 500)))
def test_each_bit_of_a_set_is_an_offset(bits: set[int]) -> None:
    number = sum(1 << bit for bit in bits)
    text = b64encode(number.to_bytes(64, "little")).decode()
    (ack,) = read_batch(batch(one_ack(text))).acks
    assert ack.offsets == [5 + bit for bit in sorted(bits)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"acks": []}',
        batch(*[one_ack("AQ==")] * (ACKS_MAX + 1)),
        batch(one_ack("A" * (BASE64_MAX + 1))),
        batch(one_ack(b64encode(b"\xff" * (OFFSETS_MAX // 8 + 1)).decode())),
        batch(one_ack("§")),
        batch({**one_ack("AQ=="), "q": "x"}),
    ],
)
def test_acknowledgements_that_are_none_or_too_many_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read_batch(body)


def test_messages_that_are_far_apart_are_acknowledged_together() -> None:
    raw = bytes((1,)) + bytes((1 << 17) - 2) + bytes((0x80,))
    (ack,) = read_batch(batch(one_ack(b64encode(raw).decode()))).acks
    assert ack.offsets == [5, 5 + (1 << 20) - 1]
