"""The walk over records: sound batches of every kind pass, each lie is named, twins agree."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.record import walk
from penstock.record.build import Record, build_batch
from penstock.record.errors import InvalidRecord
from penstock.record.walk import FAULTS, walk_records
from tests.record.batches import batch, record, simple, zigzag
from tests.record.strategies import batches

TWINS = [walk.find_fault] + ([walk.COMPILED] if walk.COMPILED else [])


def outcomes(
    block: bytes | memoryview, count: int, base: int, *, needs_keys: bool = False
) -> set[walk.Outcome]:
    return {twin(memoryview(block), count, base, needs_keys) for twin in TWINS}


def walked(block: bytes | memoryview, count: int, base: int) -> set[tuple[int, int, int, int]]:
    """The outcomes without what is told of keys."""
    return {found[:4] for found in outcomes(block, count, base)}


def body(*, delta: int = 0, key: bytes = b"\1", value: bytes = b"\1", rest: bytes = b"\0") -> bytes:
    """A record by its parts as they stand on the wire; null key and value unless given."""
    content = b"\0" + zigzag(0) + zigzag(delta) + key + value + rest
    return zigzag(len(content)) + content


def header(name: bytes, value: bytes = b"\1") -> bytes:
    return zigzag(len(name)) + name + value


@given(batches)
def test_what_a_producer_builds_passes_and_its_times_are_found(chosen: list[Record]) -> None:
    block = memoryview(build_batch(chosen))[61:]
    times = [one.timestamp_ms for one in chosen if one.timestamp_ms != -1]
    newest = max(one.timestamp_ms for one in chosen)
    expected = (0, len(chosen), min(times, default=-1), newest)
    assert walked(block, len(chosen), chosen[0].timestamp_ms) == {expected}


LIES = {
    "a length that reaches beyond the batch": (zigzag(40) + bytes(9), 0, walk.LENGTH),
    "a length of nothing": (zigzag(0), 0, walk.LENGTH),
    "a length below nothing": (zigzag(-3) + bytes(9), 0, walk.LENGTH),
    "a length that does not end": (b"\x80" * 40, 0, walk.LENGTH),
    "a length spread over six bytes": (b"\x92\x80\x80\x80\x80\0" + bytes(9), 0, walk.LENGTH),
    "a length of 33 bits": (b"\x80\x80\x80\x80\x10" + bytes(9), 0, walk.LENGTH),
    "fewer records than counted": (body(), 1, walk.LENGTH),
    "attributes that some read as the first of two bytes": (
        body().replace(b"\0", b"\x80", 1), 0, walk.ATTRIBUTES,
    ),
    "attributes that librdkafka takes for log append time": (
        body().replace(b"\0", b"\x08", 1), 0, walk.ATTRIBUTES,
    ),
    "a time of more than 64 bits": (
        zigzag(16) + b"\0" + b"\xff" * 9 + b"\2" + bytes(5), 0, walk.TIMESTAMP,
    ),
    "a time that does not end": (zigzag(16) + b"\0" + b"\xff" * 15, 0, walk.TIMESTAMP),
    "an offset twice": (body() + body(), 1, walk.OFFSET),
    "an offset left out": (body() + body(delta=2), 1, walk.OFFSET),
    "a key longer than its record": (body(key=zigzag(100)), 0, walk.KEY),
    "a key of two gigabytes": (body(key=zigzag(2**31 - 1)), 0, walk.KEY),
    "a key of minus two": (body(key=zigzag(-2)), 0, walk.KEY),
    "a value that reaches into the next record": (
        body(value=zigzag(3)) + body(delta=1), 0, walk.VALUE,
    ),
    "2^31 headers": (body(rest=zigzag(2**31 - 1)), 0, walk.HEADER_COUNT),
    "headers below none": (body(rest=zigzag(-1)), 0, walk.HEADER_COUNT),
    "a header without a name": (body(rest=zigzag(1) + b"\1\1"), 0, walk.HEADER_NAME),
    "a header's name that is no text": (
        body(rest=zigzag(1) + header(b"\xff")), 0, walk.HEADER_TEXT,
    ),
    "a header's value beyond its record": (
        body(rest=zigzag(1) + header(b"n", zigzag(9))), 0, walk.HEADER_VALUE,
    ),
    "bytes behind the headers": (
        body(rest=zigzag(1) + header(b"n") + b"!"), 0, walk.REST_OF_RECORD,
    ),
    "bytes behind no headers": (body(rest=b"\0!"), 0, walk.REST_OF_RECORD),
    "bytes behind the records": (body() + body(delta=1) + b"!", 2, walk.REST_OF_BATCH),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_named_with_its_record(lie: str) -> None:
    block, index, fault = LIES[lie]
    count = 2 if fault != walk.LENGTH or index else 1
    assert {found[:2] for found in outcomes(block, count, 1000)} == {(fault, index)}
    with pytest.raises(InvalidRecord, match=FAULTS[fault]) as refused:
        walk_records(memoryview(block), count, 1000)
    assert refused.value.record_index == (None if fault == walk.REST_OF_BATCH else index)


def test_every_fault_in_the_table_has_a_lie() -> None:
    assert {fault for _, _, fault in LIES.values()} == set(range(1, len(FAULTS)))


@given(st.binary(max_size=6))
@example("é".encode())
@example("\U0010ffff".encode())
@example(b"\xed\xa0\x80")
@example(b"\xc0\x80")
@example(b"\xe0\x80\x80")
@example(b"\xf0\x80\x80\x80")
@example(b"\xf4\x90\x80\x80")
@example(b"\xf0\x90\x80")
def test_header_names_pass_where_python_reads_them_as_text(name: bytes) -> None:
    try:
        str(name, "utf-8")
        fault = walk.SOUND
    except UnicodeDecodeError:
        fault = walk.HEADER_TEXT
    block = body(rest=zigzag(1) + header(name))
    assert {found[0] for found in outcomes(block, 1, 0)} == {fault}


def test_a_record_without_a_time_is_not_the_oldest() -> None:
    block = record(0, None, None, -1001) + record(1, None, None, 5) + record(2, None, None, -3)
    assert walked(block, 3, 1000) == {(0, 3, 997, 1005)}
    assert walked(record(0, None, None), 1, -1) == {(0, 1, -1, -1)}


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62)])
def test_a_time_beyond_an_int64_counts_as_the_last_one(base: int, delta: int) -> None:
    last = 2**63 - 1 if delta > 0 else -(2**63)
    block = record(0, None, None, delta)
    assert walked(block, 1, base) == {(0, 1, last, last)}


@given(batches, st.data())
def test_twins_agree_on_damaged_records(chosen: list[Record], data: st.DataObject) -> None:
    damaged = bytearray(build_batch(chosen)[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = damaged[: data.draw(st.integers(0, len(damaged)))]
    base = data.draw(st.sampled_from([0, -1, 1000, 2**63 - 1, -(2**63)]))
    for needs_keys in (False, True):
        assert len(outcomes(memoryview(cut), len(chosen), base, needs_keys=needs_keys)) == 1


@given(st.binary(max_size=60), st.integers(1, 4))
def test_twins_agree_on_any_bytes(block: bytes, count: int) -> None:
    assert len(outcomes(block, count, 1000, needs_keys=True)) == 1


@given(batches)
def test_records_without_a_key_are_counted_and_named_where_keys_are_needed(
    chosen: list[Record],
) -> None:
    block = memoryview(build_batch(chosen))[61:]
    keyless = tuple(at for at, one in enumerate(chosen) if one.key is None)
    base = chosen[0].timestamp_ms
    found = {each[4:] for each in outcomes(block, len(chosen), base, needs_keys=True)}
    assert found == {(len(keyless), keyless)}
    assert {each[4:] for each in outcomes(block, len(chosen), base)} == {(len(keyless), ())}
    _, without = walk_records(block, len(chosen), base, needs_keys=True)
    assert without == (walk.Keyless(len(keyless), keyless) if keyless else None)
    assert walk_records(block, len(chosen), base)[1] is None


def test_an_empty_key_is_a_key() -> None:
    block = record(0, b"", b"v") + record(1, None, b"v")
    assert {found[4:] for found in outcomes(block, 2, 0, needs_keys=True)} == {(1, (1,))}


def test_of_many_records_without_a_key_so_many_are_named() -> None:
    most = walk.KEYLESS_NAMED_MAX
    block = b"".join(record(n, b"k" if n < 7 else None, b"v") for n in range(most + 50))
    (found,) = outcomes(block, most + 50, 0, needs_keys=True)
    assert found[4:] == (most + 43, tuple(range(7, most + 7)))


def test_records_up_to_a_fault_are_counted() -> None:
    block = record(0, None, b"v") + record(2, None, b"v")
    assert {found[4:] for found in outcomes(block, 2, 0, needs_keys=True)} == {(1, (0,))}


def test_a_block_of_many_records_is_walked_to_its_end() -> None:
    """Large blocks take the path of the compiled twin that lets other threads run."""
    data = memoryview(simple(20_000))[61:]
    assert walked(data, 20_000, 1000) == {(0, 20_000, 1000, 1000)}
    assert {found[:2] for found in outcomes(data[:-1], 20_000, 0)} == {(walk.LENGTH, 19_999)}


def test_bytes_that_do_not_lie_one_behind_the_other_are_read_all_the_same() -> None:
    data = bytearray(batch(record(0, b"k", b"v"), 1))[61:]
    spread = memoryview(bytes(byte for one in data for byte in (one, 0xFF)))[::2]
    assert walked(spread, 1, 7) == {(0, 1, 7, 7)}
