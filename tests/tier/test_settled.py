"""Runs alone tell which transactions count: by their notes, and by their batches behind those."""

from collections.abc import Sequence

import pytest

from penstock.base.ids import CoordinatorEpoch
from penstock.extents.layout import NO_ABORTED, Aborted
from penstock.record.batch import TRANSACTIONAL, stamp
from penstock.record.build import Record, build_batch
from penstock.record.marker import NOTHING_OPEN, Marker, build_marker
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.read.reader import TierReader
from penstock.tier.read.settled import AbortedRange, Settled, settle
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import Part, batch, key
from tests.tier.objects import manifest_of, name, put
from tests.tier.store_contract import run

ONE = key(1, 0)
UNKNOWN = -1


def data(offset: int, producer_id: int) -> bytes:
    made = bytearray(
        build_batch(
            [Record(None, b"v", (), 0)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
    )
    stamp(memoryview(made), 0, base_offset=offset, leader_epoch=0)
    return bytes(made)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    made = bytearray(
        build_marker(
            Marker(is_commit, CoordinatorEpoch(0), NOTHING_OPEN),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=0,
        )
    )
    stamp(memoryview(made), 0, base_offset=offset, leader_epoch=0)
    return bytes(made)


def settled(*parts: Part, cut_to: int | None = None) -> Settled:
    """Put each part into an object of its own; return what they tell together."""
    bucket = Bucket()
    runs = [put(bucket, name(at), [part])[0] for at, part in enumerate(parts, 1)]
    if cut_to is not None:
        runs[-1] = runs[-1]._replace(end_offset=cut_to)
    manifest: Manifest = manifest_of(runs)
    return run(settle(TierReader(ModelledStore(bucket)), manifest))


def part(
    batches: Sequence[bytes], decided_end: int = UNKNOWN, aborted: Aborted = NO_ABORTED
) -> Part:
    return Part(ONE, batches, aborted, decided_end)


COMMITTED = [data(0, 7), batch(1), marker(2, 7, is_commit=True)]
ABORTED = [data(3, 8), marker(4, 8, is_commit=False)]
OF_ABORTED = Aborted([8], [3], [4], [3])


def test_without_open_transactions_all_of_it_is_decided() -> None:
    assert settled(part([batch(0), batch(1)])) == Settled(2, [])
    assert settled(part(COMMITTED)) == Settled(3, [])
    assert settled(part([*COMMITTED, *ABORTED], aborted=OF_ABORTED)) == Settled(
        5, [AbortedRange(3, 4, 8)]
    )


@pytest.mark.parametrize("decided_end", [UNKNOWN, 0, 1, 3])
def test_it_ends_where_the_first_open_transaction_begins(decided_end: int) -> None:
    own = [*COMMITTED, data(3, 9), batch(4), data(5, 9), data(6, 7)]
    assert settled(part(own, decided_end)).end_offset == 3


def test_a_marker_of_one_producer_ends_no_transaction_of_another() -> None:
    assert settled(part([data(0, 7), data(1, 8), marker(2, 8, is_commit=True)])).end_offset == 0


def test_a_marker_in_a_later_run_decides_what_an_earlier_one_has() -> None:
    first, second = [data(0, 7), batch(1)], [batch(2), marker(3, 7, is_commit=True), batch(4)]
    assert settled(part(first), part(second)).end_offset == 5
    assert settled(part(first)).end_offset == 0


def test_what_a_later_run_vouches_for_needs_no_marker_that_is_read() -> None:
    """Its marker may be before the runs, where nothing is to be read any more."""
    assert settled(part([data(5, 7)]), part([batch(6)], 7)).end_offset == 7


def test_a_run_that_was_cut_vouches_for_nothing_and_tells_of_no_marker_behind_the_cut() -> None:
    own = part([*COMMITTED, *ABORTED], 5, OF_ABORTED)
    assert settled(own, cut_to=4) == Settled(3, [])
    assert settled(own, cut_to=5) == Settled(5, [AbortedRange(3, 4, 8)])


def test_what_an_earlier_run_vouches_for_stays_so_behind_one_that_knows_nothing() -> None:
    assert settled(part([data(0, 7), batch(1)], 2), part([batch(2)])).end_offset == 3


def test_a_run_vouches_for_nothing_behind_its_own_end() -> None:
    """Its master may have known more of the log than the object has."""
    assert settled(part([batch(0), batch(1)], 9), part([data(2, 7), batch(3)])).end_offset == 2


@pytest.mark.parametrize(("decided_end", "end"), [(0, 0), (1, 3), (2, 3), (3, 3)])
def test_of_a_run_is_read_what_it_does_not_vouch_for(decided_end: int, end: int) -> None:
    own = [data(0, 7), batch(1), batch(2)]
    assert settled(part(own, decided_end)).end_offset == end


def test_a_marker_that_is_the_first_record_of_a_run_is_told_by_it_once() -> None:
    first, second = [data(0, 8)], [marker(1, 8, is_commit=False), batch(2)]
    told = Aborted([8], [0], [1], [0])
    aborted = [AbortedRange(0, 1, 8)]
    assert settled(part(first), part(second, aborted=told)) == Settled(3, aborted)
