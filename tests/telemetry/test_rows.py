"""Rows of client metrics: their bytes, and what is told of many."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.audit.row import Who
from penstock.telemetry.errors import MalformedTelemetry
from penstock.telemetry.points import Point
from penstock.telemetry.row import Row, Source, Writer, decode_row
from penstock.telemetry.series import AllSeries, Series

WHO = Who("User:a", "client", "software", "1", "::1")
SOURCE = Source(3, 1_700_000_000_000, "ABEiM0RVZneImaq7zN3u_w", WHO)
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers()


def point(metric: str = "m", time_ms: int = 1, **more: object) -> Point:
    told: dict[str, object] = {
        "kind": "gauge", "unit": "", "temporality": "", "is_monotonic": False, "attributes": {},
        "start_ms": 0,
    }  # fmt: skip
    return Point(metric=metric, time_ms=time_ms, **(told | more))  # type: ignore[arg-type]


@given(
    st.builds(
        point,
        st.text(max_size=9),
        attributes=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
        value=NUMBERS,
        total_count=st.none() | st.integers(0, 9),
        sum=NUMBERS,
        min=NUMBERS,
        bounds=st.lists(NUMBERS, max_size=2) | st.just(()),
        buckets=st.lists(st.integers(0, 9), max_size=2) | st.just(()),
        quantiles=st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=2) | st.just(()),
    )
)
def test_a_row_is_read_as_it_was_written(one: Point) -> None:
    assert decode_row(Writer(SOURCE).row(one)) == Row(SOURCE, one)


def test_the_row_of_a_number_has_no_fields_of_distributions() -> None:
    told = json.loads(Writer(SOURCE).row(point(value=1.5)))
    assert list(told) == [
        "v", "node", "at_ms", "instance", "principal", "client_id", "software", "version", "host",
        "metric", "kind", "unit", "temporality", "is_monotonic", "attributes", "start_ms",
        "time_ms", "value",
    ]  # fmt: skip
    assert json.loads(Writer(SOURCE).row(point()))["value"] is None


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"v":2}', b'{"v":1}', b"\xff"])
def test_what_is_no_row_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedTelemetry):
        decode_row(value)


def series(*points: Point, most: int = 100) -> list[Series]:
    found = AllSeries(most)
    for one in points:
        found.add(Row(SOURCE, one))
    return list(found)


def test_of_a_gauge_the_newest_value_counts_whenever_it_is_read() -> None:
    (one,) = series(point(time_ms=5, value=7.0), point(time_ms=9, value=8.0), point(time_ms=6))
    assert (one.value, one.time_ms, one.points) == (8.0, 9, 3)


def test_deltas_add_up_and_cumulative_sums_do_not() -> None:
    added = [point(kind="sum", temporality="delta", value=n) for n in (1, 2, 3)]
    (one,) = series(*added)
    assert one.value == 6
    (one,) = series(*(one._replace(temporality="cumulative") for one in added))
    assert one.value == 3


def test_of_distributions_counts_and_sums_add_up() -> None:
    first = point(kind="histogram", temporality="delta", total_count=2, sum=5.0)
    (one,) = series(first, first._replace(total_count=3, sum=None))
    assert (one.total_count, one.total, one.value) == (5, 5.0, None)


def test_other_attributes_are_another_series_and_there_is_a_bound() -> None:
    both = [point(attributes={"node": node}, value=1.0) for node in ("1", "2")]
    assert [one.attributes for one in series(*both)] == [(("node", "1"),), (("node", "2"),)]
    found = AllSeries(1)
    for one in (*both, *both):
        found.add(Row(SOURCE, one))
    assert (len(list(found)), found.left_out) == (1, 2)
