"""The object in place of others: their batches, byte for byte, and what their notes have told."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.base.ids import LeaderEpoch
from penstock.base.ports import Buffer
from penstock.extents.layout import NOT_CLEANED, Aborted
from penstock.extents.writer import ExtentFileWriter
from penstock.tier.copies.effects import Replacement
from penstock.tier.copies.source import Image
from penstock.tier.copies.transfer import put_object
from penstock.tier.errors import LostObject, LyingObject
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run
from penstock.tier.metadata.times import TierTimes
from penstock.tier.read.check import check_object
from penstock.tier.read.merge import build_merged
from penstock.tier.read.reader import TierReader
from penstock.tier.read.rebuild import rebuild
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, SET, Part, batch, key
from tests.tier.objects import ALL, change, file_at, manifest_of, name, put

ONE, OTHER = key(1, 0), key(2, 5)
ABORTED = Aborted([7, 8], [1, 4], [3, 8], [4, 9])
"""Of producers 7 and 8, whose markers are at 3 and 8."""


class Merged:
    """Builds merges over one bucket."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.store = ModelledStore(self.bucket)
        self.paced: list[int] = []

    async def _pace(self, size: int) -> None:
        self.paced.append(size)

    @staticmethod
    async def _work(work: Callable[[], Any]) -> Any:
        return work()

    def build(self, *runs: Sequence[Run]) -> Image:
        """Return the file of an object in place of the runs of each partition."""
        plan = tuple(Replacement(tuple(of)) for of in runs)
        reader = TierReader(self.store)
        return asyncio.run(
            build_merged(reader, plan, (CLUSTER, SET), pace=self._pace, work=self._work)
        )

    def merge(self, object_id: int, *runs: Sequence[Run]) -> list[Run]:
        """Put it; return its runs."""
        of, image = name(object_id), self.build(*runs)
        asyncio.run(put_object(self.store, ALL, of, image.file))
        asyncio.run(check_object(self.store, str(of)))
        pairs = zip(image.entries, image.epochs, strict=True)
        return [Run(of, entry, epochs, entry.end_offset) for entry, epochs in pairs]

    def read(self, manifest: Manifest, offset: int = 0) -> bytes:
        """Return all batches that a manifest has, from an offset on."""
        reader, found = TierReader(self.store), bytearray()
        while offset < manifest.end_offset:
            batches, offset = asyncio.run(reader.read(manifest, ONE, offset, 1 << 20))
            found += b"".join(batches)
        return bytes(found)


def small(one: Merged, *, count: int = 4, epochs: Sequence[int] = (1, 1, 2, 2)) -> list[Run]:
    """Put objects of five records of ONE each, with a run of OTHER in each of them."""
    runs: list[Run] = []
    for at in range(count):
        own = [batch(5 * at + more, epoch=epochs[at]) for more in range(5)]
        parts = [Part(ONE, own), Part(OTHER, [batch(at, epoch=1)])]
        runs += put(one.bucket, name(at + 1), parts)
    return runs


def of(runs: Sequence[Run], which: object) -> list[Run]:
    return [run for run in runs if run.entry.topic_partition == which]


def test_many_small_runs_become_one_of_the_same_bytes() -> None:
    one = Merged()
    runs = of(small(one), ONE)
    before = one.read(manifest_of(runs))
    (merged,) = one.merge(9, runs)
    assert (merged.first_offset, merged.end_offset, merged.entry.generation) == (0, 20, 1)
    assert merged.epochs == ((1, 0), (2, 10))
    assert merged.entry.newest_horizon_ms == NOT_CLEANED
    manifest = manifest_of(runs)
    gone = manifest.apply(EventGroup(Kind.REPLACE, ONE, (merged,)))
    assert gone == runs
    assert one.read(manifest) == before
    assert one.read(manifest, 13) == before[-7 * len(before) // 20 :]
    assert sum(one.paced) == len(before)


def test_an_object_has_merged_runs_of_several_partitions() -> None:
    one = Merged()
    runs = small(one)
    first, second = one.merge(9, of(runs, ONE), of(runs, OTHER))
    assert (first.entry.topic_partition, second.entry.topic_partition) == (ONE, OTHER)
    assert (second.first_offset, second.end_offset) == (0, 4)


def test_merged_runs_are_merged_again_with_a_higher_generation() -> None:
    one = Merged()
    runs = of(small(one), ONE)
    merged = one.merge(9, runs[:2]) + one.merge(10, runs[2:])
    (again,) = one.merge(11, merged)
    assert again.entry.generation == 2
    assert one.read(manifest_of([again])) == one.read(manifest_of(runs))


def with_aborted(one: Merged) -> list[Run]:
    """Put two runs with aborted transactions; the second one does not decide all of itself."""
    first = Part(
        ONE, [batch(at, epoch=1) for at in range(5)], Aborted(*[[c[0]] for c in ABORTED]), 4
    )
    second = Part(
        ONE, [batch(at, epoch=1) for at in range(5, 10)], Aborted(*[[c[1]] for c in ABORTED]), 9
    )
    return put(one.bucket, name(1), [first]) + put(one.bucket, name(2), [second])


def aborted(one: Merged, runs: Sequence[Run], start: int, end: int) -> object:
    return asyncio.run(TierReader(one.store).aborted(manifest_of(runs), start, end))


def test_what_was_aborted_is_told_of_the_merged_run_as_of_the_others() -> None:
    one = Merged()
    runs = with_aborted(one)
    merged = one.merge(9, runs)
    for start in range(9):
        for end in range(start + 1, 10):
            assert aborted(one, merged, start, end) == aborted(one, runs, start, end)
    assert aborted(one, merged, 0, 9) == [(7, 1), (8, 4)]
    assert aborted(one, merged, 0, 10) is None, "offset 9 was not decided"


@pytest.mark.parametrize(("end", "producers"), [(7, [7]), (8, [7]), (9, [7, 8])])
def test_of_a_run_that_was_cut_the_merged_one_has_nothing_behind_that(
    end: int, producers: list[int]
) -> None:
    """The marker of producer 8 is at 8."""
    one = Merged()
    first, second = with_aborted(one)
    cut = second._replace(end_offset=end)
    (merged,) = one.merge(9, [first, cut])
    assert merged.end_offset == end
    assert len(one.read(manifest_of([merged]))) == end * len(batch(0))
    notes = asyncio.run(TierReader(one.store).notes(merged))
    assert list(notes.aborted.producer_ids) == producers
    assert notes.decided_end == 4, "only the first run was whole"


def test_a_merge_is_cut_as_every_run_when_an_unclean_election_has_lost_its_end() -> None:
    one = Merged()
    runs = of(small(one), ONE)
    manifest = manifest_of(one.merge(9, runs))
    manifest.apply(EventGroup(Kind.CUT, ONE, offset=7))
    assert len(one.read(manifest)) == 7 * len(batch(0))
    assert manifest.runs[0].epochs == ((1, 0),)


@pytest.mark.parametrize("at", [file_at(64), file_at(64 + 100), -50])
def test_a_damaged_run_is_named_and_nothing_takes_its_place(at: int) -> None:
    one = Merged()
    runs = of(small(one), ONE)
    if at < 0:
        at = file_at(runs[1].entry.summary_at + 3)
    change(one.bucket, runs[1].name, at)
    with pytest.raises(LyingObject) as raised:
        one.build(runs)
    assert raised.value.name == str(runs[1].name)


def test_a_lost_run_is_named_with_its_partition() -> None:
    one = Merged()
    runs = of(small(one), ONE)
    del one.bucket.objects[str(runs[2].name)]
    with pytest.raises(LostObject) as raised:
        one.build(runs)
    assert (raised.value.topic_partition, raised.value.offset) == (ONE, 10)


def test_runs_of_other_epochs_than_the_metadata_tells_are_refused() -> None:
    one = Merged()
    runs = of(small(one), ONE)
    wrong = runs[1]._replace(epochs=((LeaderEpoch(7), 5),))
    with pytest.raises(LyingObject, match="epochs"):
        one.build([runs[0], wrong])


def test_runs_with_a_gap_are_refused() -> None:
    one = Merged()
    runs = of(small(one), ONE)
    with pytest.raises(LyingObject, match="a batch at 10, and not at 5"):
        one.build([runs[0], runs[2]])


def test_a_lost_cluster_is_rebuilt_with_what_was_merged_and_the_rest() -> None:
    """Old objects may be there, all or some of them, or be gone."""
    for left in (4, 2, 0):
        one = Merged()
        runs = small(one)
        before = one.read(manifest_of(of(runs, ONE)))
        one.merge(9, of(runs, ONE), of(runs, OTHER))
        put(one.bucket, name(10), [Part(ONE, [batch(20, epoch=2)])])
        for object_id in range(1, 5 - left):
            del one.bucket.objects[str(name(object_id))]
        found = asyncio.run(rebuild(one.store, CLUSTER, TierTimes(), 1))
        assert not found.refused
        assert not found.gaps
        manifest = found.metadata.manifest(ONE)
        assert [run.name.object_id for run in manifest.runs] == [9, 10]
        assert one.read(manifest) == before + batch(20, epoch=2)
        assert sorted(each.object_id for each in found.unused) == list(range(5 - left, 5))


def test_batches_of_other_epochs_than_their_run_tells_are_refused() -> None:
    one = Merged()
    first, *_ = of(small(one, count=1), ONE)
    chunks: list[Buffer] = []
    writer = ExtentFileWriter(chunks.extend, CLUSTER, SET)
    writer.begin(ONE)
    writer.add(memoryview(batch(5, epoch=1)))
    writer.end(epochs=[(LeaderEpoch(7), 5)])
    (entry,) = writer.finish()
    asyncio.run(put_object(one.store, ALL, name(2), chunks))
    told = Run(name(2), entry, ((7, 5),), 6)
    with pytest.raises(LyingObject, match="batches of epochs"):
        one.build([first, told])
