"""Batches that are kept for whoever reads on: always the records of the batch at hand."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given

from penstock.record import opened
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.record.errors import CorruptBatch, RecordError, UnsupportedMagic
from penstock.record.opened import KEEP_MS, STEPS, KeptBatches, OpenBatch
from penstock.record.read import DecodedRecord, iter_records
from tests.record.batches import batch, record, simple
from tests.record.strategies import batches, codecs, st

WHERE = bytes(16), 3
FIRST = 70


@dataclass
class World:
    """A table with a clock that the test moves."""

    now_ms: int = 0
    kept: KeptBatches = field(init=False)

    def __post_init__(self) -> None:
        self.kept = KeptBatches(lambda: self.now_ms)

    def begin(
        self, data: bytes | bytearray, first: int, where: tuple[bytes, int] = WHERE
    ) -> Iterator[DecodedRecord | None]:
        view = memoryview(data)
        return self.kept.records(where, read_header(view), view, first)

    def read(
        self,
        data: bytes | bytearray,
        first: int,
        most: int,
        where: tuple[bytes, int] = WHERE,
    ) -> list[DecodedRecord]:
        """So many records; the reader stops there."""
        records = (one for one in self.begin(data, first, where) if one is not None)
        return list(itertools.islice(records, most))

    @property
    def begun(self) -> tuple[int, int]:
        return self.kept.opened, self.kept.read_on


def built(count: int, *, codec: int = 0, word: str = "", size: int = 10) -> bytes:
    records = [Record(None, f"{word}{number:0{size}}".encode()) for number in range(count)]
    return build_batch(records, codec=codec, base_offset=FIRST)


def values(records: list[DecodedRecord]) -> list[int]:
    return [int(cast("bytes", one.value)) for one in records]


@given(batches, codecs, st.lists(st.tuples(st.integers(-2, 60), st.integers(0, 9)), max_size=12))
def test_what_is_read_on_is_what_is_read_anew(
    chosen: list[Record], codec: int, reads: list[tuple[int, int]]
) -> None:
    """The oracle decodes the batch from its beginning each time."""
    world, data = World(), build_batch(chosen, codec=codec, base_offset=FIRST)
    whole = list(iter_records(memoryview(data)))
    for first, most in reads:
        wanted = [one for one in whole if one.offset >= FIRST + first][:most]
        assert world.read(data, FIRST + first, most) == wanted
        assert len(world.kept) <= 1
    assert world.read(data, 0, len(whole) + 1) == whole
    assert (len(world.kept), world.kept.bytes_now) == (0, 0)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True), st.data())
def test_gaps_that_compaction_leaves_are_stepped_over(
    deltas: list[int], data: st.DataObject
) -> None:
    deltas.sort()
    payload = b"".join(record(one, None, b"%d" % one) for one in deltas)
    made = batch(payload, len(deltas), base_offset=FIRST, last_offset_delta=200)
    world = World()
    for _ in range(4):
        first, most = data.draw(st.integers(0, 210)), data.draw(st.integers(1, 5))
        assert (
            values(world.read(made, FIRST + first, most))
            == [one for one in deltas if one >= first][:most]
        )


def test_a_read_goes_on_where_another_has_ended() -> None:
    world, data = World(), built(100)
    assert values(world.read(data, FIRST, 32)) == list(range(32))
    assert values(world.read(data, FIRST + 32, 32)) == list(range(32, 64))
    assert values(world.read(data, FIRST + 5, 1)) == [5], "what came back"
    assert world.begun == (1, 2)


def test_a_batch_that_was_read_whole_is_not_kept() -> None:
    world, data = World(), built(10)
    assert len(world.read(data, FIRST, 11)) == 10
    assert (len(world.kept), world.kept.bytes_now) == (0, 0)


@pytest.mark.parametrize(
    "other",
    [
        built(100, word="1"),  # written anew after a truncation
        built(99),
        simple(100, base_offset=FIRST),
        bytes(built(100)[:12] + (7).to_bytes(4) + built(100)[16:]),  # of another leader
    ],
)
def test_a_batch_that_takes_its_place_is_another(other: bytes) -> None:
    world = World()
    world.read(built(100), FIRST, 32)
    wanted = [one for one in iter_records(memoryview(other)) if one.offset >= FIRST + 32][:5]
    assert world.read(other, FIRST + 32, 5) == wanted
    assert world.begun == (2, 0)


def test_partitions_and_topics_are_told_apart() -> None:
    world, data = World(), built(100)
    for where in (WHERE, (WHERE[0], 4), (bytes([1]) * 16, 3)):
        world.read(data, FIRST, 32, where)
    assert world.begun == (3, 0)
    assert len(world.kept) == 3


@pytest.mark.parametrize("codec", [0, 3])
def test_nothing_is_kept_of_memory_that_is_another_s(codec: int) -> None:
    world, data = World(), bytearray(built(100, codec=codec))
    world.read(data, FIRST, 32)
    whole = bytes(data)
    data[61:] = bytes(len(data) - 61)  # the buffer is used for another read
    assert values(world.read(whole, FIRST + 32, 32)) == list(range(32, 64))
    assert world.begun == (1, 1)


def test_all_together_have_a_bound_and_the_oldest_go_first() -> None:
    world, data = World(), built(100, size=1_000)
    world.kept.bytes_max = 3 * len(data)
    for partition in range(4):
        world.read(data, FIRST, 32, (bytes(16), partition))
        assert world.kept.bytes_now <= world.kept.bytes_max
    assert len(world.kept) == 2
    before = world.begun
    world.read(data, FIRST + 32, 1, (bytes(16), 0))
    assert world.begun == (before[0] + 1, before[1])
    world.read(data, FIRST + 32, 1, (bytes(16), 3))
    assert world.begun == (before[0] + 1, before[1] + 1)


def test_one_that_is_larger_than_the_bound_is_not_kept_and_costs_no_other_its_place() -> None:
    world, small = World(), built(100)
    world.kept.bytes_max = 20_000
    world.read(small, FIRST, 32)
    world.read(built(100, size=1_000), FIRST, 32, (bytes(16), 9))
    assert len(world.kept) == 1
    world.read(small, FIRST + 32, 1)
    assert world.begun == (2, 1)


def test_a_bomb_is_counted_by_what_it_unpacks_to() -> None:
    world, data = World(), built(100, codec=4, size=10_000)
    assert len(data) < 20_000
    world.read(data, FIRST, 1)
    assert 1_000_000 <= world.kept.bytes_now <= 4_000_000
    world.kept.bytes_max = 500_000
    world.read(data, FIRST, 1)
    assert (len(world.kept), world.kept.bytes_now) == (0, 0)


def test_what_nobody_reads_on_is_given_back() -> None:
    world, data = World(), built(100)
    world.read(data, FIRST, 32, (bytes(16), 0))
    world.now_ms += KEEP_MS - 1
    world.read(data, FIRST, 32, (bytes(16), 1))
    world.kept.expire()
    assert len(world.kept) == 2
    world.now_ms += 1
    world.kept.expire()
    assert len(world.kept) == 1
    world.read(data, FIRST + 32, 32, (bytes(16), 1))
    world.now_ms += KEEP_MS - 1
    world.kept.expire()
    assert len(world.kept) == 1, "it was read on since"
    world.now_ms += 1
    world.kept.expire()
    assert (len(world.kept), world.kept.bytes_now) == (0, 0)


def test_two_that_read_at_once_leave_one() -> None:
    world, data = World(), built(100)
    both = [world.begin(data, FIRST) for _ in range(2)]
    for reader in both:
        assert next(reader) is not None
    del reader
    both.clear()
    assert len(world.kept) == 1
    assert len(world.read(data, FIRST, 101)) == 100
    assert world.kept.bytes_now == 0


def test_stepping_over_gives_its_reader_a_chance_to_leave() -> None:
    world, data = World(), built(4 * STEPS)
    read = list(itertools.islice(world.begin(data, FIRST + 3 * STEPS + 1), 5))
    assert [one is None for one in read] == [True, True, True, False, False]
    half = world.begin(built(4 * STEPS, word="1"), FIRST + 3 * STEPS)
    assert next(half) is None
    half.close()  # type: ignore[attr-defined]
    world.read(built(4 * STEPS, word="1"), FIRST + 3 * STEPS, 1)
    assert world.begun == (2, 1), "what was stepped over is not again"


@pytest.mark.parametrize(
    "wrong",
    [
        batch(bytes(simple(3)[61:]) + b"x", 3),
        batch(bytes(simple(3)[61:]), 4, last_offset_delta=3),
        batch(bytes(simple(3)[61:]), 2, last_offset_delta=2),
        batch(record(1, None, b"a") + record(1, None, b"b"), 2),
        batch(record(5, None, b"a"), 1),
        simple(3, crc=1),
        simple(3)[:-1],
        batch(bytes(simple(3)[61:]), 3, magic=1),
    ],
)
def test_what_can_not_be_read_is_said_as_elsewhere_and_not_kept(wrong: bytearray) -> None:
    world = World()
    for _ in range(2):
        with pytest.raises(RecordError) as told:
            world.read(wrong, 0, 100)
        with pytest.raises(type(told.value)):
            list(iter_records(memoryview(wrong)))
        assert isinstance(told.value, CorruptBatch | UnsupportedMagic)
    assert (len(world.kept), world.kept.bytes_now) == (0, 0)


def test_its_size_tells_what_it_has() -> None:
    data = built(1_000, size=100)
    view = memoryview(data)
    one = OpenBatch(read_header(view), view)
    list(one.records(FIRST))
    held = one.keep()
    assert held >= len(data) - 61 + 8 * 1_000
    assert held <= len(data) + 8 * 1_000 + opened.ENTRY_BYTES
