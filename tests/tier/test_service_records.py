"""The records of `__tier_state`: whatever is written is read, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.coordinator.errors import MalformedRecord
from penstock.extents.layout import Entry
from penstock.tier.metadata.commands import Answer, Committed, Done, Refused, Reserved, Tenure
from penstock.tier.metadata.manifest import Run
from penstock.tier.metadata.objects import ObjectRow
from penstock.tier.metadata.state import RESERVED_MAX, Held
from penstock.tier.names import ObjectName
from penstock.tier.service import records as r
from tests.extents.files import CLUSTER, key

INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
SIZE = st.integers(0, 2**32 - 1)
ENTRIES = st.builds(
    Entry,
    st.binary(min_size=16, max_size=16),
    INT32,
    INT32,
    *[INT64] * 5,
    *[st.integers(0, 2**64 - 1)] * 3,
    *[SIZE] * 3,
    st.integers(0, 2**64 - 1),
    SIZE,
)
EPOCHS = st.lists(st.tuples(INT32, INT64), max_size=4).map(tuple)
NAMES = st.builds(ObjectName, st.just(CLUSTER), INT32, INT32, st.integers(0, 2**62))
ANSWERS: st.SearchStrategy[Answer] = st.one_of(
    st.just(Done()),
    st.just(Committed()),
    st.sampled_from(r.REASONS).map(Refused),
    st.builds(
        lambda first, count: Reserved(tuple(range(first, first + count))),
        st.integers(1, 2**40),
        st.integers(1, RESERVED_MAX),
    ),
)


@given(NAMES, ENTRIES, EPOCHS, INT64)
def test_a_run_is_read_as_it_was_written(
    name: ObjectName, entry: Entry, epochs: tuple[tuple[int, int], ...], end: int
) -> None:
    run = Run(name, entry, epochs, end)
    assert r.decode_run(CLUSTER, r.encode_run(run)) == run


@given(st.builds(ObjectRow, NAMES, st.sampled_from(r.STATES), INT64, INT64, INT32, INT64))
def test_an_object_is_read_as_it_was_written(row: ObjectRow) -> None:
    assert r.decode_object(CLUSTER, row.name.object_id, r.encode_object(row)) == row


@given(INT32, INT64, INT64, st.binary(min_size=1, max_size=40), ANSWERS)
def test_a_tenure_is_read_as_it_was_written(
    epoch: int, number: int, request_id: int, nonce: bytes, answer: Answer
) -> None:
    held = Held(Tenure(7, LeaderEpoch(epoch), number), nonce, request_id, answer)
    assert r.decode_tenure(7, r.encode_tenure(held)) == held


def test_a_key_tells_what_it_is_about() -> None:
    one = key(3, 4)
    assert r.decode_key(r.COUNTERS_KEY) == r.OfCounters()
    assert r.decode_key(r.tenure_key(7)) == r.OfTenure(7)
    assert r.decode_key(r.object_key(9)) == r.OfObject(9)
    assert r.decode_key(r.partition_key(one)) == r.OfPartition(one)
    assert r.decode_key(r.run_key(one, 12)) == r.OfRun(one, 12)
    assert r.decode_key(r.give_ups_key(one)) == r.OfGiveUps(one)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x00\x05", b"\x00\x06", b"\x00\x00x", b"\x00\x01\x00", r.object_key(1) + b"x"],
)
def test_a_key_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        r.decode_key(data)


def _values() -> list[tuple[str, bytes]]:
    name = ObjectName(CLUSTER, 7, LeaderEpoch(3), 9)
    entry = Entry(*TopicPartition(*key(1, 0)), 0, 5, 9, *[0] * 11)
    held = Held(Tenure(7, LeaderEpoch(3), 2), b"nonce", 4, Reserved((5, 6)))
    return [
        ("counters", r.encode_counters(r.Counters(5, 6))),
        ("tenure", r.encode_tenure(held)),
        ("object", r.encode_object(ObjectRow(name, r.STATES[1], 100))),
        ("bounds", r.encode_bounds(r.Bounds(1, 2, 3))),
        ("run", r.encode_run(Run(name, entry, ((3, 5),), 9))),
        ("give ups", r.encode_give_ups(2**40)),
    ]


def _decode(kind: str, value: bytes) -> object:
    match kind:
        case "counters":
            return r.decode_counters(value)
        case "tenure":
            return r.decode_tenure(7, value)
        case "object":
            return r.decode_object(CLUSTER, 9, value)
        case "bounds":
            return r.decode_bounds(value)
        case "give ups":
            return r.decode_give_ups(value)
        case _:
            return r.decode_run(CLUSTER, value)


@pytest.mark.parametrize(("kind", "value"), _values())
def test_a_value_that_is_cut_or_goes_on_is_refused(kind: str, value: bytes) -> None:
    assert _decode(kind, value)
    for wrong in [*(value[:size] for size in range(len(value))), value + b"\x00"]:
        with pytest.raises(MalformedRecord):
            _decode(kind, wrong)


@pytest.mark.parametrize(("kind", "value"), _values())
def test_a_value_of_a_later_release_is_told(kind: str, value: bytes) -> None:
    with pytest.raises(r.UnknownVersion):
        _decode(kind, b"\x00\x01" + value[2:])


def test_numbers_of_states_answers_and_reasons_that_nobody_knows_are_told() -> None:
    values = dict(_values())
    tenure, at = values["tenure"], len(values["tenure"]) - 13
    for wrong in (
        tenure[:at] + b"\x09",
        tenure[:at] + b"\x03\x7f",
        tenure[:at] + b"\x01" + (1).to_bytes(8) + (RESERVED_MAX + 1).to_bytes(4),
    ):
        with pytest.raises(MalformedRecord):
            r.decode_tenure(7, wrong)
    state_at = 10
    row = values["object"]
    with pytest.raises(r.UnknownVersion):
        r.decode_object(CLUSTER, 9, row[:state_at] + b"\x09" + row[state_at + 1 :])
    run, count_at = values["run"], len(values["run"]) - 16
    with pytest.raises(MalformedRecord):
        r.decode_run(CLUSTER, run[:count_at] + (-1).to_bytes(4, signed=True) + run[count_at + 4 :])


@pytest.mark.parametrize("count", [0, -1])
def test_give_ups_that_never_were_are_refused(count: int) -> None:
    with pytest.raises(MalformedRecord):
        r.decode_give_ups(r.encode_give_ups(count))
