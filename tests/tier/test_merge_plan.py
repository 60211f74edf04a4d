"""Which runs are merged: enough bytes in a row, or enough old runs; each byte a few times."""

from collections.abc import Iterable, Sequence

import pytest

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.extents.layout import Entry
from penstock.tier.copies import merge_plan
from penstock.tier.copies.merge_plan import RUNS_MAX, Bounds, MergePlanner, MergeRules
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run, Snapshot
from penstock.tier.names import ObjectName
from tests.extents.files import CLUSTER, SET, key

ONE, OTHER = key(1, 0), key(1, 1)
RUNS_MIN = 8
RULES = MergeRules(object_bytes=1000, age_ms=10_000, runs_min=RUNS_MIN)
RECORDS = 10
"""Of each run."""


def run_of(at: int, size: int, of: TopicPartition = ONE, *, generation: int = 0) -> Run:
    """Return the run in a row of such runs; its records are as many ms old as their offsets."""
    first, end = RECORDS * at, RECORDS * (at + 1)
    entry = Entry(*of, generation, first, end, first, end - 1, -1, 64, size, 0, 1, 0, 1, size, 0)
    name = ObjectName(CLUSTER, SET, LeaderEpoch(1), 100 * generation + at + 1)
    return Run(name, entry, ((1, first),), end)


def manifest_of(runs: Sequence[Run], event: int = 1) -> Manifest:
    return Manifest(Snapshot(event, runs[0].first_offset, runs[-1].end_offset, tuple(runs)))


class World:
    """A planner, the time, and where logs begin."""

    def __init__(self, *sizes: int) -> None:
        self.now_ms = 0
        self.local_start: int | None = 0
        self.has_room = True
        bounds = Bounds(lambda _: self.local_start, lambda: self.now_ms, lambda: self.has_room)
        self.planner = MergePlanner(RULES, bounds)
        self.manifests = {ONE: manifest_of([run_of(at, size) for at, size in enumerate(sizes)])}

    def planned(self) -> list[tuple[int, int]]:
        """Return which runs are to be one, by their numbers: first, and behind the last."""
        found = [one.part for one in self.planner.plan(self.manifests)]
        return [(part.first_offset // RECORDS, part.end_offset // RECORDS) for part in found]

    def add(self, *sizes: int) -> None:
        manifest = self.manifests[ONE]
        for size in sizes:
            at = manifest.end_offset // RECORDS
            manifest.apply(EventGroup(Kind.COPY, ONE, (run_of(at, size),)))

    def merge(self) -> bool:
        """Do what is planned of the only partition."""
        plan = self.planner.plan(self.manifests)
        for one in plan:
            first, last = one.runs[0].entry, one.runs[-1].entry
            entry = first._replace(
                generation=one.generation,
                end_offset=last.end_offset,
                max_timestamp=last.max_timestamp,
                batch_bytes=one.batch_bytes,
            )
            new = Run(one.runs[0].name, entry, one.runs[0].epochs, last.end_offset)
            self.manifests[ONE].apply(EventGroup(Kind.REPLACE, ONE, (new,)))
        return bool(plan)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([400, 400, 300], [(0, 2)]),
        ([400, 400, 200], []),
        ([600, 400, 400, 400], [(1, 3)]),
        ([400, 400, 600, 400, 400, 400], [(3, 5)]),
        ([499, 499, 499], [(0, 2)]),
        ([500, 500, 500], []),
    ],
)
def test_small_runs_are_merged_when_an_object_takes_no_more(
    sizes: list[int], expected: list[tuple[int, int]]
) -> None:
    assert World(*sizes).planned() == expected


def test_fewer_bytes_are_merged_when_they_are_old_and_there_are_enough_runs() -> None:
    one = World(*[1] * RUNS_MIN)
    one.now_ms = RULES.age_ms - 1
    assert one.planned() == []
    one.now_ms = RULES.age_ms
    assert one.planned() == [(0, RUNS_MIN)]
    few = World(*[1] * (RUNS_MIN - 1))
    few.now_ms = 10 * RULES.age_ms
    assert few.planned() == []


def test_time_passes_for_runs_that_stand_before_a_large_one_too() -> None:
    one = World(*[1] * RUNS_MIN, 600, 1)
    assert one.planned() == []
    assert one.planned() == []
    one.now_ms = RULES.age_ms
    assert one.planned() == [(0, RUNS_MIN)]


def test_what_was_merged_is_not_merged_with_what_comes_behind_it() -> None:
    one = World(*[1] * RUNS_MIN)
    one.now_ms = 100 * RULES.age_ms
    assert one.merge()
    one.add(*[1] * (RUNS_MIN - 1))
    assert one.planned() == []
    one.add(1)
    assert one.planned() == [(RUNS_MIN, 2 * RUNS_MIN)]


def test_a_partition_that_gets_little_has_few_runs_and_each_byte_is_written_few_times() -> None:
    one = World(1)
    one.now_ms = 1 << 40
    written = 0
    for _ in range(RUNS_MIN**3):
        one.add(1)
        while one.merge():
            newest = max(one.manifests[ONE].runs, key=lambda run: run.entry.generation)
            assert newest.entry.generation <= 3
        written = sum(
            run.entry.generation * run.entry.batch_bytes for run in one.manifests[ONE].runs
        )
    assert len(one.manifests[ONE].runs) < 4 * RUNS_MIN
    assert written <= 3 * (RUNS_MIN**3 + 1)


def test_no_merge_goes_on_across_the_local_start() -> None:
    one = World(400, 400, 300, 400, 400)
    one.local_start = 2 * RECORDS
    assert one.planned() == [(2, 4)]
    within = World(400, 400, 300, 400)
    within.local_start = RECORDS + 1
    assert within.planned() == []


@pytest.mark.parametrize("kept", [RECORDS, RECORDS // 2, 2 * RECORDS, 3 * RECORDS + 1])
def test_runs_of_which_disks_are_freed_one_after_the_other_are_merged_all_the_same(
    kept: int,
) -> None:
    """At each look some are below the local start, and some above; it rises with every copy."""
    full, old = World(300), World(1)
    for one in (full, old):
        one.now_ms = 1 << 40
    found: list[list[tuple[int, int]]] = []
    for one, size in ((full, 300), (old, 1)):
        while not (planned := one.planned()):
            assert len(one.manifests[ONE].runs) < 3 * RUNS_MIN, "nothing is ever merged"
            one.add(size)
            one.local_start = max(0, one.manifests[ONE].end_offset - kept)
        found.append(planned)
    assert found == [[(0, 3)], [(0, RUNS_MIN)]]


def test_runs_below_the_local_start_are_not_forgotten_for_more_that_are_young_above_it() -> None:
    one = World(*[1] * (RUNS_MIN + 4))
    one.local_start = 3 * RECORDS
    assert one.planned() == []
    one.local_start = (RUNS_MIN + 4) * RECORDS
    one.now_ms = 1 << 40
    assert one.planned() == [(0, RUNS_MIN + 4)]


def test_a_large_run_at_the_local_start_ends_what_is_below_it_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = World(1, 1, 600, 1)
    one.local_start = 2 * RECORDS
    assert one.planned() == []
    seen: list[int] = []
    runs_from = Manifest.runs_from

    def noted(self: Manifest, at: int) -> Iterable[Run]:
        seen.append(at)
        return runs_from(self, at)

    monkeypatch.setattr(Manifest, "runs_from", noted)
    one.add(1)
    assert one.planned() == []
    assert seen == [3 * RECORDS]


def test_what_is_not_to_be_merged_stays() -> None:
    one = World(400, 400, 300)
    one.local_start = None
    assert one.planned() == []
    one.local_start = 0
    one.has_room = False
    assert one.planned() == []
    one.has_room = True
    assert one.planned() == [(0, 2)]


def test_a_partition_that_was_put_off_is_left_out_for_that_time() -> None:
    one = World(400, 400, 300)
    one.planner.put_off(ONE, 50)
    one.now_ms = 49
    assert one.planned() == []
    one.now_ms = 50
    assert one.planned() == [(0, 2)]
    one.planner.pause(50)
    assert one.planned() == []
    one.now_ms = 100
    assert one.planned() == [(0, 2)]


def test_runs_of_several_partitions_go_into_one_object_as_long_as_they_fit() -> None:
    one = World(*[10] * RUNS_MIN)
    one.now_ms = 10 * RULES.age_ms
    some = [key(1, number) for number in range(40)]
    one.manifests = {
        of: manifest_of([run_of(at, 10, of) for at in range(RUNS_MIN)]) for of in reversed(some)
    }
    first = one.planner.plan(one.manifests)
    keys = [each.part.topic_partition for each in first]
    assert keys == sorted(keys)
    assert sum(each.batch_bytes for each in first) <= RULES.object_bytes
    assert len(first) == RULES.object_bytes // (10 * RUNS_MIN)
    second = one.planner.plan(one.manifests)
    assert not set(keys) & {each.part.topic_partition for each in second}


def test_many_tiny_runs_are_as_many_as_one_commit_takes() -> None:
    one = World(*[0] * (RUNS_MAX + 10))
    assert one.planned() == [(0, RUNS_MAX)]


def test_a_partition_of_very_many_runs_is_looked_at_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merge_plan, "LOOKED_AT_MAX", 20)
    one = World(*[600] * 50, 400, 400, 300)
    plans = [one.planned() for _ in range(4)]
    assert plans[0] == []
    assert [(50, 52)] in plans


def test_nothing_is_looked_at_twice_before_it_changes() -> None:
    one = World(400, 400)
    assert one.planned() == []

    class Unread(Manifest):
        def runs_from(self, offset: int) -> object:  # type: ignore[override]
            raise AssertionError(f"looked at from {offset}")

    same = Unread(one.manifests[ONE].snapshot())
    one.manifests[ONE] = same
    assert one.planned() == []


def test_a_partition_that_was_cut_is_looked_at_from_its_beginning() -> None:
    one = World(600, 600, 400, 400)
    assert one.planned() == []
    one.manifests[ONE].apply(EventGroup(Kind.CUT, ONE, offset=0))
    one.manifests[ONE].apply(EventGroup(Kind.COPY, ONE, (run_of(0, 450),)))
    one.add(450, 450)
    assert one.planned() == [(0, 2)]
