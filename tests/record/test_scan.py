"""Both twins of the record scan against `iter_records`, and against each other on damage."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import scan
from penstock.record.build import Record, build_batch
from penstock.record.compression import READER_BOUNDS
from penstock.record.errors import CorruptBatch
from penstock.record.read import iter_records
from tests.record.batches import simple
from tests.record.strategies import batches, codecs

FINDS = [scan.find_record] + ([scan.COMPILED] if scan.COMPILED else [])


def block_of(records: list[Record]) -> tuple[memoryview, int]:
    return memoryview(build_batch(records))[61:], len(records)


@given(batches, codecs, st.integers(-2, 14), st.integers(-10, 2**41))
def test_the_first_record_late_enough_and_not_below_the_start_is_found(
    chosen: list[Record], codec: int, start: int, timestamp_ms: int
) -> None:
    data = memoryview(build_batch(chosen, codec=codec, base_offset=100))
    found = scan.first_record_at(data, timestamp_ms, 100 + start, READER_BOUNDS)
    plain = [
        (record.offset, record.timestamp_ms)
        for record in iter_records(data)
        if record.offset >= 100 + start and record.timestamp_ms >= timestamp_ms
    ]
    assert found == (plain[0] if plain else None)


def test_under_log_append_time_the_first_record_kept_has_the_time_of_all() -> None:
    data = memoryview(simple(3, attributes=0x08, base_offset=10, max_timestamp=5000))
    assert scan.first_record_at(data, 5000, 0, READER_BOUNDS) == (10, 5000)
    assert scan.first_record_at(data, 5000, 12, READER_BOUNDS) == (12, 5000)
    assert scan.first_record_at(data, 5000, 13, READER_BOUNDS) is None
    assert scan.first_record_at(data, 5001, 0, READER_BOUNDS) is None


@pytest.mark.parametrize("find", FINDS)
def test_a_time_that_no_delta_can_say_is_not_found(
    find: Callable[[memoryview, int, int, int], tuple[int, int] | None],
) -> None:
    data = memoryview(simple(2, base_timestamp=-(2**62)))
    assert scan.first_record_at(data, 2**63 - 1, 0, READER_BOUNDS) is None
    assert find(data[61:], 2, 0, -(2**63)) == (0, 0)


@pytest.mark.skipif(scan.COMPILED is None, reason="the compiled twin was not built")
@given(batches, st.data())
def test_twins_agree_on_damaged_records(chosen: list[Record], data: st.DataObject) -> None:
    block, count = block_of(chosen)
    damaged = bytearray(block)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(damaged)[: data.draw(st.integers(0, len(damaged)))]
    outcomes: list[tuple[int, int] | str | None] = []
    for find in FINDS:
        try:
            outcomes.append(find(cut, count, 1, 5))
        except CorruptBatch:
            outcomes.append("corrupt")
    assert outcomes[0] == outcomes[1]
