"""Offset ranges: cutting, admission, JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.errors import OptionError
from penstock.spark.ranges import (
    OffsetRange,
    PartitionName,
    admit,
    offsets_from_json,
    offsets_to_json,
    partitions_from_json,
    ranges_between,
    split_ranges,
)

_starts = st.integers(0, 10**9)
_lengths = st.integers(0, 10_000)
_ranges = st.lists(st.tuples(_starts, _lengths), max_size=8).map(
    lambda pairs: [OffsetRange("t", n, s, s + size) for n, (s, size) in enumerate(pairs)]
)


@given(_ranges, st.integers(0, 40), st.none() | st.integers(1, 5_000))
def test_ranges_cover_every_offset_once_and_keep_the_limits(
    ranges: list[OffsetRange], ranges_min: int, records_max: int | None
) -> None:
    parts = split_ranges(ranges, ranges_min=ranges_min, records_max=records_max)
    for whole in ranges:
        mine = [part for part in parts if part.partition == whole.partition]
        edges = [whole.start, *(part.end for part in mine)]
        assert [part.start for part in mine] == edges[:-1]
        assert edges[-1] == whole.end or not whole.length
    assert all(0 < part.length <= (records_max or part.length) for part in parts)
    assert len(parts) >= min(ranges_min, sum(part.length for part in ranges))


def test_the_longest_range_is_cut_first() -> None:
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 90)]
    parts = split_ranges(ranges, ranges_min=4)
    assert [(part.partition, part.start, part.end) for part in parts] == [
        (0, 0, 10),
        (1, 0, 30),
        (1, 30, 60),
        (1, 60, 90),
    ]


_lags = st.dictionaries(st.integers(0, 20), st.integers(0, 10**6), min_size=1)


@given(_lags, st.integers(1, 10**6))
def test_a_limited_batch_moves_every_lagging_partition_and_never_passes_the_end(
    lags: dict[int, int], limit: int
) -> None:
    start = {PartitionName("t", n): 100 for n in lags}
    latest = {PartitionName("t", n): 100 + lag for n, lag in lags.items()}
    end = admit(start, latest, limit)
    taken = {name: end[name] - 100 for name in end}
    assert all(0 <= taken[name] <= latest[name] - 100 for name in end)
    assert all(taken[name] > 0 for name in end if latest[name] > 100)
    assert sum(taken.values()) <= limit + len(lags)


@given(_lags, st.integers(1, 10**4))
def test_limited_batches_reach_the_end(lags: dict[int, int], limit: int) -> None:
    position = {PartitionName("t", n): 0 for n in lags}
    latest = {PartitionName("t", n): lag % 10_000 for n, lag in lags.items()}
    for _ in range(sum(latest.values()) + 1):
        if position == latest:
            break
        position = admit(position, latest, limit)
    assert position == latest


def test_a_log_that_went_back_is_not_followed() -> None:
    name = PartitionName("t", 0)
    assert admit({name: 10}, {name: 4}, 5) == {name: 10}
    assert ranges_between({name: 10}, {name: 10}) == []


def test_offsets_are_written_in_one_order_whatever_order_they_came_in() -> None:
    offsets = {PartitionName("b", 10): 1, PartitionName("b", 9): 2, PartitionName("a", 0): 3}
    written = offsets_to_json(offsets)
    assert list(written) == ["a", "b"]
    assert list(written["b"]) == ["9", "10"]
    assert offsets_from_json(written, option="x") == offsets


@pytest.mark.parametrize("text", ["", "[]", '{"t": 5}', '{"t": {"a": 1}}', '{"t": {"0": "1"}}'])
def test_unreadable_offsets_name_the_option(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        offsets_from_json(text, option="startingOffsets")


def test_assigned_partitions_are_sorted_and_checked() -> None:
    assert partitions_from_json('{"t": [1, 0]}', option="assign") == [("t", 0), ("t", 1)]
    with pytest.raises(OptionError, match="assign"):
        partitions_from_json('{"t": [true]}', option="assign")
