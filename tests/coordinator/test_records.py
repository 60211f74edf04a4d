"""Records of a rewrite come in batches that any log takes."""

import pytest

from penstock.coordinator.records import (
    RECORD_OVERHEAD_BYTES,
    REWRITE_BATCH_BYTES,
    JournalRecord,
    in_batches,
    records_bytes,
)


def record(number: int, size: int) -> JournalRecord:
    """A record that counts as so many bytes."""
    key = b"%05d" % number
    return key, bytes(size - len(key) - RECORD_OVERHEAD_BYTES)


@pytest.mark.parametrize("share", [2, 3, 5])
def test_a_batch_is_filled_and_no_more_than_filled(share: int) -> None:
    size = REWRITE_BATCH_BYTES // share
    records = [record(number, size) for number in range(4 * share + 1)]
    batches = [*in_batches(records)]
    assert [one for batch in batches for one in batch] == records
    assert [len(batch) for batch in batches] == [share] * 4 + [1]
    assert all(records_bytes(batch) <= REWRITE_BATCH_BYTES for batch in batches)


def test_a_record_that_is_larger_than_a_batch_comes_alone() -> None:
    large = record(1, 2 * REWRITE_BATCH_BYTES)
    small = [record(number, 100) for number in (0, 2, 3)]
    assert [*in_batches([small[0], large, *small[1:]])] == [[small[0]], [large], small[1:]]


def test_of_no_records_there_is_no_batch() -> None:
    assert [*in_batches([])] == []
