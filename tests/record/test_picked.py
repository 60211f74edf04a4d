"""Keys and wanted headers of records: the two twins tell the same, of damaged blocks too."""

from random import Random

import pytest

from penstock.record import picked
from penstock.record.batch import BATCH_HEADER_BYTES, read_header
from penstock.record.build import Record, build_batch
from penstock.record.errors import CorruptBatch
from penstock.record.picked import COMPILED, PORTION, Picked, iter_picked, pick_records

NAMES = (b"rmq.id", b"rmq.keys")


def block_of(*records: Record) -> memoryview:
    return memoryview(build_batch(list(records)))[BATCH_HEADER_BYTES:]


def record(key: bytes | None = None, *headers: tuple[str, bytes | None]) -> Record:
    return Record(key, b"value", headers, 1_000)


TWINS = [pick_records, *([COMPILED] if COMPILED else [])]


@pytest.mark.parametrize("pick", TWINS)
def test_key_and_wanted_headers_are_told_and_nothing_else(pick: picked._Pick) -> None:
    block = block_of(
        record(b"k", ("rmq.id", b"1"), ("other", b"x"), ("rmq.keys", b"a b")),
        record(None, ("rmq.keys", b"c")),
        record(b"", ("rmq.i", b"no"), ("rmq.idx", b"no")),
    )
    found, at = pick(block, NAMES, 0, -1, 10)
    assert found == [
        (0, 0, b"k", b"1", b"a b"),
        (1, 0, None, None, b"c"),
        (2, 0, b"", None, None),
    ]
    assert at == len(block)


@pytest.mark.parametrize("pick", TWINS)
def test_the_first_header_of_a_name_that_has_a_value_counts(pick: picked._Pick) -> None:
    block = block_of(
        record(None, ("rmq.id", None), ("rmq.id", b""), ("rmq.id", b"1"), ("rmq.id", b"2"))
    )
    assert pick(block, NAMES, 0, -1, 10)[0] == [(0, 0, None, b"1", None)]


@pytest.mark.parametrize("pick", TWINS)
def test_a_block_is_read_in_portions(pick: picked._Pick) -> None:
    records = [record(b"%d" % number) for number in range(5)]
    block = block_of(*records)
    first, at = pick(block, NAMES, 0, -1, 3)
    second, end = pick(block, NAMES, at, first[-1][0], 3)
    assert [one[2] for one in first + second] == [b"0", b"1", b"2", b"3", b"4"]
    assert end == len(block)


def test_all_portions_of_a_long_block_are_told() -> None:
    count = 2 * PORTION + 3
    block = block_of(*(record(b"%d" % number) for number in range(count)))
    assert [int(one[2]) for one in iter_picked(block, NAMES)] == list(range(count))


@pytest.mark.parametrize("pick", TWINS)
def test_an_offset_that_does_not_rise_is_refused(pick: picked._Pick) -> None:
    block = block_of(record(b"k"))
    with pytest.raises(CorruptBatch):
        pick(block, NAMES, 0, 0, 10)


@pytest.mark.skipif(COMPILED is None, reason="no compiled twin")
def test_the_twins_agree_on_damaged_blocks() -> None:
    random = Random(11)
    whole = build_batch([
        record(b"key-%d" % one, ("rmq.id", b"%d" % one), ("h", None), ("rmq.keys", b"a"))
        for one in range(6)
    ])  # fmt: skip
    assert read_header(memoryview(whole)).record_count == 6
    for _ in range(3_000):
        block = bytearray(whole[BATCH_HEADER_BYTES:])
        for _ in range(random.randrange(1, 4)):
            block[random.randrange(len(block))] = random.randrange(256)
        del block[random.choice([len(block), random.randrange(len(block))]) :]
        assert _outcome(pick_records, block) == _outcome(COMPILED, block), bytes(block)


def _outcome(pick: picked._Pick | None, block: bytearray) -> tuple[list[Picked], int] | None:
    assert pick is not None
    try:
        return pick(memoryview(block), NAMES, 0, -1, 100)
    except CorruptBatch:
        return None
