"""Lost metadata is made anew of a store with merged objects, also of such as nobody has committed.

A master that dies after a put leaves its object there; the next one may merge fewer runs.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from penstock.extents.layout import NOT_CLEANED
from penstock.record.batch import read_header
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.read.reader import TierReader
from penstock.tier.read.rebuild import Rebuilt
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import Part
from tests.tier.objects import name, put
from tests.tier.store_contract import run
from tests.tier.test_objects import ONE, TWO, ranges, rebuilt
from tests.tier.test_objects import batches as batches_of

SEEDS = 60
LOST_TENTHS = 4
"""Of ten masters that have put a merged object: those that die before they commit it."""


def merged(first: int, end: int, generation: int = 1, *, epoch: int = 1) -> Part:
    made = batches_of(first, end, epoch)
    return Part(ONE, made, generation=generation, horizon_ms=NOT_CLEANED)


def copied(*bounds: int) -> Bucket:
    """Return a store with an object for each range between two bounds."""
    bucket = Bucket()
    for at, (first, end) in enumerate(pairwise(bounds), 1):
        put(bucket, name(at), [Part(ONE, batches_of(first, end))])
    return bucket


def test_a_smaller_merge_than_one_that_was_never_committed_is_not_refused() -> None:
    bucket = copied(0, 5, 9, 12)
    put(bucket, name(8), [merged(0, 12)])
    put(bucket, name(9, 2), [merged(0, 9)])
    found = rebuilt(bucket)
    assert (found.refused, found.gaps) == ([], [])
    assert ranges(found) == [(8, 0, 12)]
    assert found.unused == [name(1), name(2), name(3), name(9, 2)]


def test_what_else_such_an_object_has_is_used_though_its_runs_are_deleted() -> None:
    bucket = copied(0, 5, 9, 12)
    put(bucket, name(8), [merged(0, 12)])
    other = Part(TWO, batches_of(0, 7), generation=1, horizon_ms=NOT_CLEANED)
    put(bucket, name(9, 2), [merged(0, 9), other])
    found = rebuilt(bucket)
    assert ranges(found, TWO) == [(9, 0, 7)]
    assert found.unused == [name(1), name(2), name(3)]


@pytest.mark.parametrize(
    ("lost", "later", "expected"),
    [
        ((5, 12), (0, 9), [(9, 0, 5), (8, 5, 12)]),
        ((0, 9), (5, 12), [(8, 0, 5), (9, 5, 12)]),
        ((5, 9), (0, 12), [(9, 0, 12)]),
    ],
)
def test_merges_of_which_each_has_something_are_used_both(
    lost: tuple[int, int], later: tuple[int, int], expected: list[tuple[int, int, int]]
) -> None:
    bucket = copied(0, 5, 9, 12)
    put(bucket, name(8), [merged(*lost)])
    put(bucket, name(9, 2), [merged(*later)])
    for at in (1, 2, 3):  # the grace of what they replaced is over
        del bucket.objects[str(name(at))]
    found = rebuilt(bucket)
    assert (found.refused, found.gaps) == ([], [])
    assert ranges(found) == expected


def test_a_merge_goes_on_where_a_run_ends_that_was_cut() -> None:
    bucket = copied(0, 5, 9)
    put(bucket, name(8, 2), [Part(ONE, batches_of(7, 12, 2))])
    part = Part(ONE, batches_of(5, 7) + batches_of(7, 12, 2), generation=1, horizon_ms=NOT_CLEANED)
    put(bucket, name(9, 2), [part])
    found = rebuilt(bucket)
    assert ranges(found) == [(1, 0, 5), (9, 5, 12)]
    assert found.metadata.manifest(ONE).runs[1].epochs == ((1, 5), (2, 7))


def test_a_merge_of_other_epochs_takes_the_place_of_what_the_log_has_lost() -> None:
    """An unclean election has cut what was merged before it."""
    bucket = copied(0, 5)
    put(bucket, name(8), [merged(5, 12)])
    put(bucket, name(9, 2), [merged(0, 8, epoch=2)])
    found = rebuilt(bucket)
    assert ranges(found) == [(9, 0, 8)]
    assert (found.refused, found.unused) == ([], [name(1), name(8)])


def test_an_epoch_that_begins_in_the_midst_is_of_both_when_they_agree() -> None:
    bucket = Bucket()
    every = batches_of(0, 3, 1) + batches_of(3, 6, 2) + batches_of(6, 12, 3)
    put(bucket, name(8, 3), [Part(ONE, every[2:], generation=1, horizon_ms=NOT_CLEANED)])
    put(bucket, name(9, 4), [Part(ONE, every[:8], generation=1, horizon_ms=NOT_CLEANED)])
    found = rebuilt(bucket)
    assert ranges(found) == [(9, 0, 2), (8, 2, 12)]
    assert found.metadata.manifest(ONE).runs[0].epochs == ((1, 0),)


def test_what_was_cleaned_is_not_laid_over_a_part_of_what_was_not() -> None:
    bucket = copied(0, 5, 9)
    put(bucket, name(8), [merged(0, 9)])
    put(bucket, name(9), [Part(ONE, batches_of(0, 5), generation=2, horizon_ms=77)])
    found = rebuilt(bucket)
    assert [one for one, _ in found.refused] == [str(name(9))]
    assert ranges(found) == [(8, 0, 9)]


class Masters:
    """Masters that copy, merge and die; `runs` is what they have committed."""

    def __init__(self, draw: Random) -> None:
        self.bucket = Bucket()
        self.runs: list[Run] = []
        self._draw = draw
        self._end = 0
        self._last_id = 0
        self._epoch = 1

    def _put(self, part: Part) -> Run:
        self._last_id += 1
        (made,) = put(self.bucket, name(self._last_id, self._epoch), [part])
        return made

    def batches(self, runs: Sequence[Run]) -> list[bytes]:
        """Return what was copied, each batch with the epoch that it has."""
        first, end = runs[0].first_offset, runs[-1].end_offset
        starts = [one for run in runs for one in run.epochs]
        made: list[bytes] = []
        for at in range(first, end):
            made += batches_of(at, at + 1, [epoch for epoch, start in starts if start <= at][-1])
        return made

    def step(self) -> None:
        if len(self.runs) < 2 or self._draw.random() < 0.4:
            first, self._end = self._end, self._end + self._draw.randint(1, 4)
            self.runs.append(self._put(Part(ONE, batches_of(first, self._end, self._epoch))))
            return
        begin = self._draw.randrange(len(self.runs) - 1)
        end = self._draw.randint(begin + 2, len(self.runs))
        old = self.runs[begin:end]
        generation = 1 + max(run.entry.generation for run in old)
        every = self.batches(old)
        made = self._put(Part(ONE, every, generation=generation, horizon_ms=NOT_CLEANED))
        if self._draw.randrange(10) < LOST_TENTHS:
            self._epoch += 1
            return
        self.runs[begin:end] = [made]
        if self._draw.random() < 0.7:  # their grace is over
            for run in old:
                del self.bucket.objects[str(run.name)]


def check_readable(masters: Masters, found: Rebuilt) -> None:
    """Check that all that was committed is read from what was made anew, with its epochs."""
    manifest: Manifest = found.metadata.manifest(ONE)
    reader, offset, seen = TierReader(ModelledStore(masters.bucket)), 0, []
    while offset < manifest.end_offset:
        got = run(reader.read(manifest, ONE, offset, 1 << 20))
        for data in got.batches:
            header = read_header(data)
            assert header.base_offset == offset
            seen.append((offset, header.leader_epoch))
            offset = header.last_offset + 1
    expected = [read_header(memoryview(one)).leader_epoch for one in masters.batches(masters.runs)]
    assert seen == list(enumerate(expected))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_that_was_committed_is_there_after_any_merges_and_deaths(seed: int) -> None:
    masters = Masters(Random(seed))
    for _ in range(25):
        masters.step()
        found = rebuilt(masters.bucket)
        assert (found.refused, found.gaps) == ([], [])
        check_readable(masters, found)
