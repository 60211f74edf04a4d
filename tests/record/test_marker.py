"""Markers are read in one step if they are as we write them, and by the format otherwise."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import PlatformError
from penstock.record import marker as markers
from penstock.record.batch import BATCH_HEADER_BYTES, seal
from penstock.record.marker import Marker, build_marker, read_marker

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MARKERS = st.builds(Marker, st.booleans(), INT32, INT64)


def built(marker: Marker) -> memoryview:
    made = build_marker(marker, producer_id=1, producer_epoch=2, timestamp_ms=1_700_000_000_000)
    return memoryview(bytearray(made))


@given(MARKERS)
def test_marker_is_read_as_it_was_written(marker: Marker) -> None:
    batch = built(marker)
    assert read_marker(batch) == markers._read_own(batch) == markers._read_any(batch) == marker


@given(MARKERS, st.integers(0, 38), st.integers(0, 255))
def test_what_is_read_in_one_step_is_what_the_format_says(
    marker: Marker, at: int, byte: int
) -> None:
    batch = built(marker)
    batch[BATCH_HEADER_BYTES + at] = byte
    seal(batch, 0, len(batch))
    own = markers._read_own(batch)
    any_one: Marker | None = None
    with suppress(PlatformError):
        any_one = markers._read_any(batch)
    assert own is None or own == any_one
