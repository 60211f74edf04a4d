"""The bytes of `__transaction_state`, and what is none of them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import ProducerEpoch, ProducerId
from penstock.coordinator.errors import MalformedRecord
from penstock.transactions.records import (
    UnknownVersion,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from penstock.transactions.state import EPOCH_MAX, Transaction, TransactionState

KEY = bytes.fromhex("00000003747831")
V0 = bytes.fromhex(
    "0000" "0000000000000007" "0002" "0000ea60" "01"
    "00000001" "0001" "74" "00000002" "00000000" "00000003"
    "00000000000003e8" "00000000000003e7"
)  # fmt: skip
V1 = bytes.fromhex(
    "0001" "0000000000000007" "0002" "0000ea60" "01"
    "02" "0274" "03" "00000000" "00000003" "00"
    "00000000000003e8" "00000000000003e7"
    "02" "00" "08" "0000000000000006" "02" "02" "0002"
)  # fmt: skip
EMPTY = bytes.fromhex(
    "0001" "0000000000000007" "0002" "0000ea60" "00"
    "00" "00000000000003e8" "ffffffffffffffff" "00"
)  # fmt: skip
ONGOING = Transaction(
    "tx1",
    ProducerId(7),
    ProducerEpoch(2),
    60_000,
    TransactionState.ONGOING,
    frozenset({("t", 0), ("t", 3)}),
    999,
    1000,
)

ids = st.integers(-1, (1 << 63) - 1)
epochs = st.integers(-1, 32_767)
partitions = st.frozensets(
    st.tuples(st.text(max_size=20), st.integers(0, (1 << 31) - 1)), max_size=8
)
transactions = st.builds(
    Transaction,
    st.just("tx1"),
    ids,
    epochs,
    st.integers(1, 900_000),
    st.sampled_from(list(TransactionState)[1:]),
    partitions,
    ids,
    ids,
    ids,
    ids,
    epochs,
    st.integers(0, 2),
    st.integers(0, 2**63 - 1),
)


def test_keys_and_values_are_those_of_kafka() -> None:
    assert (encode_key("tx1"), decode_key(KEY)) == (KEY, "tx1")
    assert decode_value("tx1", V0) == ONGOING
    assert decode_value("tx1", V1) == ONGOING._replace(
        previous_producer_id=ProducerId(6), version=2
    )
    assert encode_value(ONGOING._replace(previous_producer_id=ProducerId(6), version=2)) == V1
    idle = Transaction(
        "tx1",
        ProducerId(7),
        ProducerEpoch(2),
        60_000,
        TransactionState.EMPTY,
        frozenset(),
        -1,
        1000,
    )
    assert (encode_value(idle), decode_value("tx1", EMPTY)) == (EMPTY, idle)


@given(transactions)
def test_a_value_gives_back_what_it_was_made_of(one: Transaction) -> None:
    assert decode_value("tx1", encode_value(one)) == one


@pytest.mark.parametrize("value", [V0, V1, EMPTY])
def test_a_value_that_is_cut_off_or_too_long_is_malformed(value: bytes) -> None:
    for length in range(len(value)):
        with pytest.raises(MalformedRecord):
            decode_value("tx1", value[:length])
    with pytest.raises(MalformedRecord):
        decode_value("tx1", value + b"\0")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_malformed(data: bytes) -> None:
    with suppress(MalformedRecord):
        decode_value("tx1", b"\0\1" + data)


@pytest.mark.parametrize(
    "value",
    [
        b"\0\2" + V1[2:],
        V1[:16] + b"\7" + V1[17:],
        EMPTY[:-1] + b"\1\x09\1x",
    ],
)
def test_what_a_later_release_writes_is_told_apart(value: bytes) -> None:
    with pytest.raises(UnknownVersion):
        decode_value("tx1", value)


def test_a_key_that_is_cut_off_or_too_long_is_malformed() -> None:
    for key in (*(KEY[:length] for length in range(len(KEY))), KEY + b"x", b"\0\0\xff\xff"):
        with pytest.raises(MalformedRecord):
            decode_key(key)


def test_every_tagged_field_has_its_place() -> None:
    tags = (
        "00" "08" "0000000000000006"  # the previous producer id
        "01" "08" "0000000000000008"  # the next one
        "02" "02" "0002"  # version of transactions
        "e807" "02" "7ffe"  # ours: the last epoch
        "e907" "08" "0000000000000009"  # ours: the number of the transaction
    )  # fmt: skip
    value = V1[: V1.index(b"\x02\x00\x08")] + b"\5" + bytes.fromhex(tags)
    one = ONGOING._replace(
        previous_producer_id=ProducerId(6),
        next_producer_id=ProducerId(8),
        version=2,
        last_epoch=ProducerEpoch(EPOCH_MAX),
        number=9,
    )
    assert (encode_value(one), decode_value("tx1", value)) == (value, one)
    next_epoch = V1[: V1.index(b"\x02\x00\x08")] + bytes.fromhex("0103020005")
    assert decode_value("tx1", next_epoch) == ONGOING
    short = V1[: V1.index(b"\x02\x00\x08")] + bytes.fromhex("01020105")
    with pytest.raises(MalformedRecord):
        decode_value("tx1", short)


@given(st.sampled_from([V0, V1, EMPTY]), st.integers(0), st.integers(1, 255))
def test_a_damaged_byte_is_a_value_or_malformed(value: bytes, at: int, change: int) -> None:
    damaged = bytearray(value)
    damaged[at % len(value)] ^= change
    with suppress(MalformedRecord):
        encode_value(decode_value("tx1", bytes(damaged)))


def test_a_key_of_a_later_release_is_told_apart() -> None:
    with pytest.raises(UnknownVersion):
        decode_key(b"\0\1" + KEY[2:])
