"""What a reader of committed records leaves out of a fetched run."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import CoordinatorEpoch
from penstock.record.batch import CONTROL, TRANSACTIONAL
from penstock.record.build import Record, build_batch
from penstock.record.committed import Aborted, committed_pieces
from penstock.record.errors import UnreadableBatch
from penstock.record.marker import Marker, build_marker
from penstock.record.read import iter_batches, iter_records

PLAIN = -1
"""The producer of batches without a transaction."""


class _Log:
    """Batches of two records each, markers of one, and what a broker tells about them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end = 0
        self.aborted: list[Aborted] = []
        self.committed: list[int] = []
        self._open: dict[int, list[int]] = {}

    def write(self, producer: int) -> None:
        attributes = 0 if producer == PLAIN else TRANSACTIONAL
        records = [Record(None, b"v", (), 0)] * 2
        self.data += build_batch(
            records, producer_id=producer, attributes=attributes, base_offset=self.end
        )
        offsets = [self.end, self.end + 1]
        if producer == PLAIN:
            self.committed += offsets
        else:
            self._open.setdefault(producer, []).extend(offsets)
        self.end += 2

    def finish(self, producer: int, *, is_commit: bool) -> None:
        offsets = self._open.pop(producer, [])
        if is_commit:
            self.committed += offsets
        elif offsets:
            self.aborted.append(Aborted(offsets[0], producer))
        marker = Marker(is_commit, CoordinatorEpoch(0), offsets[0] if offsets else -1)
        batch = bytearray(
            build_marker(marker, producer_id=producer, producer_epoch=0, timestamp_ms=0)
        )
        batch[:8] = self.end.to_bytes(8, "big")
        self.data += batch
        self.end += 1

    def finish_all(self) -> None:
        for producer in list(self._open):
            self.finish(producer, is_commit=False)


def _readable(data: bytes | bytearray, aborted: list[Aborted]) -> list[int]:
    return [
        record.offset
        for piece in committed_pieces(memoryview(data), aborted)
        for header, batch in iter_batches(piece)
        if not header.is_control
        for record in iter_records(batch)
    ]


class _Step(NamedTuple):
    producer: int
    what: str


_STEPS = st.lists(
    st.builds(_Step, st.sampled_from([PLAIN, 1, 2, 3]), st.sampled_from(["w", "w", "c", "a"])),
    max_size=40,
)


@given(_STEPS)
def test_records_are_read_that_were_committed_or_had_no_transaction(steps: list[_Step]) -> None:
    log = _Log()
    for producer, what in steps:
        if what == "w":
            log.write(producer)
        elif producer != PLAIN:
            log.finish(producer, is_commit=what == "c")
    log.finish_all()
    assert _readable(log.data, log.aborted[::-1]) == sorted(log.committed)


def test_a_run_without_aborted_transactions_is_one_piece() -> None:
    log = _Log()
    log.write(1)
    log.finish(1, is_commit=True)
    data = memoryview(log.data)
    assert [piece is data for piece in committed_pieces(data, [])] == [True]


def test_a_run_may_begin_within_an_aborted_transaction_and_end_with_a_part_of_a_batch() -> None:
    log = _Log()
    log.write(1)
    begun = len(log.data)
    log.write(1)
    log.write(PLAIN)
    log.finish(1, is_commit=False)
    log.write(PLAIN)
    assert _readable(log.data[begun:-5], log.aborted) == [4, 5]


def test_a_producer_counts_again_after_its_abort() -> None:
    log = _Log()
    log.write(1)
    log.finish(1, is_commit=False)
    log.write(1)
    log.finish(1, is_commit=True)
    assert _readable(log.data, log.aborted) == [3, 4]


def test_a_control_batch_that_can_not_be_read_is_named() -> None:
    log = _Log()
    log.write(PLAIN)
    log.data += build_batch(
        [Record(None, None, (), 0)],
        producer_id=1,
        attributes=TRANSACTIONAL | CONTROL,
        base_offset=2,
    )
    pieces = committed_pieces(memoryview(log.data), [Aborted(0, 7)])
    assert len(next(pieces)) < len(log.data)
    with pytest.raises(UnreadableBatch, match="without a typed record"):
        next(pieces)
