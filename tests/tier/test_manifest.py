"""What events make of the runs of one partition, and that copies do not change with each other."""

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
