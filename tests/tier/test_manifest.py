"""What events make of the runs of one partition, and that copies do not change with each other."""

from itertools import pairwise

import pytest

from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run
from simulator.kernel.object_store import Bucket
from tests.extents.files import Part, batch, key
from tests.tier.objects import manifest_of, name, put

ONE = key(1, 0)


def runs() -> list[Run]:
    """Runs of [0, 10) in epochs 1 and, from 5 on, 2; and of [10, 20)."""
    bucket = Bucket()
    first = [batch(0, records=5, epoch=1), batch(5, records=5, epoch=2)]
    return [
        *put(bucket, name(1), [Part(ONE, first)]),
        *put(bucket, name(2), [Part(ONE, [batch(10, records=10, epoch=2)])]),
    ]


@pytest.mark.parametrize("is_copy_changed", [True, False])
def test_a_copy_and_what_it_was_made_of_change_by_themselves(is_copy_changed: bool) -> None:
    first, second = runs()
    given = manifest_of([first])
    copied = given.copy()
    changed, other = (copied, given) if is_copy_changed else (given, copied)
    before = other.snapshot()
    changed.apply(EventGroup(Kind.COPY, ONE, (second,)))
    assert other.snapshot() == before
    assert other.run_from(10) is None
    assert other.run_at(10) is None
    assert list(other.runs_from(10)) == []
    assert changed.run_from(10) == second
    other.apply(EventGroup(Kind.COPY, ONE, (second,)))
    assert other.run_from(10) == changed.run_from(10) == second


@pytest.mark.parametrize(
    ("cut", "epochs"), [(5, ((1, 0),)), (6, ((1, 0), (2, 5))), (10, ((1, 0), (2, 5)))]
)
def test_a_run_that_is_cut_tells_of_the_epochs_that_it_has_something_of(
    cut: int, epochs: tuple[tuple[int, int], ...]
) -> None:
    manifest = manifest_of(runs())
    gone = manifest.apply(EventGroup(Kind.CUT, ONE, offset=cut))
    assert [run.first_offset for run in gone] == [10]
    (left,) = manifest.runs
    assert (left.end_offset, left.epochs, manifest.end_offset) == (cut, epochs, cut)
    follows = EventGroup(Kind.COPY, ONE, (left._replace(end_offset=cut),))
    assert Manifest().problem_with(follows) is None


EVERY = (0, 1, 5, 9, 10, 11, 15, 20, 21)


@pytest.mark.parametrize("kinds", [(Kind.CUT, Kind.DELETE), (Kind.DELETE, Kind.CUT)])
@pytest.mark.parametrize("one", EVERY)
@pytest.mark.parametrize("other", EVERY)
def test_a_manifest_begins_where_it_ends_or_before_and_its_runs_reach_to_its_end(
    kinds: tuple[Kind, Kind], one: int, other: int
) -> None:
    manifest = manifest_of(runs())
    for kind, offset in zip(kinds, (one, other), strict=True):
        manifest.apply(EventGroup(kind, ONE, offset=offset))
        assert 0 <= manifest.start_offset <= manifest.end_offset
        left = [(run.first_offset, run.end_offset) for run in manifest.runs]
        assert all(first < end for first, end in left)
        assert all(a[1] == b[0] for a, b in pairwise(left))
        if left:
            is_in_first = manifest.start_offset < left[0][1]  # unless a cut has left nothing of it
            assert is_in_first or manifest.start_offset == manifest.end_offset == left[0][1]
            assert left[0][0] <= manifest.start_offset
            assert left[-1][1] == manifest.end_offset


def test_a_run_of_nothing_and_epochs_that_begin_at_once_are_refused() -> None:
    first, _ = runs()
    for bad in (first._replace(end_offset=0), first._replace(epochs=((1, 0), (2, 0)))):
        assert Manifest().problem_with(EventGroup(Kind.COPY, ONE, (bad,))) is not None
    assert Manifest().problem_with(EventGroup(Kind.COPY, ONE, (first,))) is None


@pytest.mark.parametrize(
    ("start", "left", "bounds"),
    [(0, 2, (0, 20)), (9, 2, (9, 20)), (10, 1, (10, 20)), (20, 0, (20, 20)), (30, 0, (30, 30))],
)
def test_what_is_above_a_new_start_is_what_a_delete_leaves(
    start: int, left: int, bounds: tuple[int, int]
) -> None:
    given = Manifest(manifest_of(runs()).snapshot()._replace(give_ups=2))
    before, above = given.snapshot(), given.above(start)
    assert given.snapshot() == before
    assert (above.start_offset, above.end_offset) == bounds
    assert list(above.runs) == runs()[2 - left :]
    given.apply(EventGroup(Kind.DELETE, ONE, offset=start))
    assert above.snapshot()._replace(last_event_id=given.last_event_id) == given.snapshot()
    assert given.above(0).snapshot() == given.snapshot(), "a start does not fall"
