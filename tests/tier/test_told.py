"""Runs as readers are told of them: from an offset on, and as bytes."""

import pytest

from penstock.extents.layout import Entry
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run, Snapshot
from penstock.tier.metadata.run_bytes import decode_run, encode_run
from tests.extents.files import CLUSTER, key
from tests.tier.objects import name

ONE = key(1, 0)


def run_of(object_id: int, first: int, end: int) -> Run:
    entry = Entry(*ONE, 0, first, end, *[0] * 11)
    return Run(name(object_id), entry, ((1, first), (4, end - 1)), end)


RUNS = (run_of(1, 5, 8), run_of(2, 8, 9), run_of(3, 9, 20))


@pytest.mark.parametrize(
    ("offset", "count"), [(0, 3), (5, 3), (7, 3), (8, 2), (9, 1), (19, 1), (20, 0), (99, 0)]
)
def test_runs_from_an_offset_begin_with_the_one_that_has_it(offset: int, count: int) -> None:
    manifest = Manifest(Snapshot(1, 5, 20, RUNS))
    assert [*manifest.runs_from(offset)] == [*RUNS[len(RUNS) - count :]]


def test_runs_behind_a_cut_are_those_that_came_after_it() -> None:
    manifest = Manifest(Snapshot(1, 5, 20, RUNS))
    manifest.apply(EventGroup(Kind.CUT, ONE, offset=12))
    assert [run.end_offset for run in manifest.runs_from(8)] == [9, 12]
    assert [*manifest.runs_from(12)] == []


def test_a_run_is_read_as_it_was_written_and_nothing_else_is_one() -> None:
    data = encode_run(RUNS[0])
    assert decode_run(CLUSTER, data) == RUNS[0]
    for other in (data[:-1], data + b"x", data[:3], b"", data[:-12]):
        with pytest.raises(ValueError, match="bytes"):
            decode_run(CLUSTER, other)
