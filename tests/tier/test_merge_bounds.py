"""Merges at every bound: a model says when nothing is left to be merged, whatever was seen."""

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.tier.copies import merge_plan
from penstock.tier.copies.effects import Built, Replacement
from penstock.tier.copies.merge import Merge
from penstock.tier.copies.merge_plan import Bounds, MergePlanner, MergeRules
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run
from penstock.tier.names import ObjectName
from tests.extents.files import CLUSTER, SET, key
from tests.tier.test_merge_plan import RECORDS, manifest_of, run_of

ONE, OTHER = key(1, 0), key(1, 1)
RULES = MergeRules(object_bytes=10, age_ms=100, runs_min=3)


def merged_run(one: Replacement) -> Run:
    """Return what takes the place of runs."""
    first, last = one.runs[0].entry, one.runs[-1].entry
    entry = first._replace(
        generation=one.generation,
        end_offset=last.end_offset,
        max_timestamp=last.max_timestamp,
        batch_bytes=one.batch_bytes,
    )
    return Run(one.runs[0].name, entry, one.runs[0].epochs, last.end_offset)


def is_to_be_merged(runs: Sequence[Run], local_start: int, now_ms: int) -> bool:
    """Whether the rules want anything of these runs: said once more, and from the beginning."""
    rows: list[list[Run]] = [[]]
    for run in runs:
        is_across = run.first_offset < local_start < run.end_offset
        if is_across or run.entry.batch_bytes >= RULES.object_bytes // 2:
            rows.append([])
        elif run.first_offset == local_start:
            rows.append([run])
        else:
            rows[-1].append(run)
    for row in rows:
        if sum(run.entry.batch_bytes for run in row) > RULES.object_bytes:
            return True
        for _, group in groupby(row, key=lambda run: run.entry.generation):
            equals = list(group)
            is_old = equals[0].entry.first_timestamp + RULES.age_ms <= now_ms
            if is_old and len(equals) >= RULES.runs_min:
                return True
    return False


class World:
    """A planner that is asked again and again, and does what it says."""

    def __init__(self, sizes: Sequence[int], of: TopicPartition = ONE) -> None:
        self.now_ms, self.local_start = 0, 0
        bounds = Bounds(lambda _: self.local_start, lambda: self.now_ms)
        self.planner = MergePlanner(RULES, bounds)
        self.manifests = {of: manifest_of([run_of(at, size, of) for at, size in enumerate(sizes)])}

    def add(self, size: int) -> None:
        manifest = self.manifests[ONE]
        at = manifest.end_offset // RECORDS
        manifest.apply(EventGroup(Kind.COPY, ONE, (run_of(at, size),)))

    def settle(self) -> None:
        """Merge until there is nothing more, and see that this is so."""
        for _ in range(100):
            plan = self.planner.plan(self.manifests)
            if not plan:
                break
            for one in plan:
                start, end = one.part.first_offset, one.part.end_offset
                assert not start < self.local_start < end, "it goes on across the local start"
                assert one.batch_bytes <= RULES.object_bytes
                assert len(one.runs) > 1
                event = EventGroup(Kind.REPLACE, ONE, (merged_run(one),))
                assert self.manifests[ONE].problem_with(event) is None
                self.manifests[ONE].apply(event)
        assert not is_to_be_merged(self.manifests[ONE].runs, self.local_start, self.now_ms)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 6)),
    st.tuples(st.just("start"), st.integers(0, 24).map(lambda half: half * RECORDS // 2)),
    st.tuples(st.just("time"), st.sampled_from([1, RULES.age_ms // 2, RULES.age_ms])),
)


@settings(deadline=None, max_examples=300)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12), steps=st.lists(STEPS, max_size=8)
)
def test_what_the_rules_want_is_merged_whatever_was_seen_before(
    sizes: list[int], steps: list[tuple[str, int]]
) -> None:
    world = World(sizes)
    world.settle()
    for what, number in steps:
        match what:
            case "add":
                world.add(number)
            case "start":
                world.local_start = max(world.local_start, number)
            case _:
                world.now_ms += number
        world.settle()


@pytest.mark.parametrize(("start", "expected"), [(29, []), (30, [(0, 30)]), (31, [(0, 30)])])
def test_runs_up_to_the_local_start_are_merged(start: int, expected: list[tuple[int, int]]) -> None:
    world = World([1, 1, 1, 1])
    world.now_ms, world.local_start = RULES.age_ms, start
    plan = world.planner.plan(world.manifests)
    assert [one.part[1:] for one in plan] == expected


def test_runs_are_looked_at_again_when_the_local_start_has_moved() -> None:
    world = World([1, 1, 1])
    world.now_ms, world.local_start = RULES.age_ms, 15
    assert world.planner.plan(world.manifests) == ()
    assert world.planner.plan(world.manifests) == ()
    world.local_start = 30
    (one,) = world.planner.plan(world.manifests)
    assert one.part[1:] == (0, 30)


@pytest.mark.parametrize("step", [5, 10, 20])
def test_runs_are_merged_behind_a_local_start_that_follows_close(step: int) -> None:
    """As with disks that are small: fewer runs than are merged lie between two of its places."""
    world = World([1, 1])
    world.now_ms = 1_000
    for moved in range(step, 400, step):
        world.local_start = moved
        while world.manifests[ONE].end_offset < moved + 2 * RECORDS:
            world.add(1)
        world.settle()
    assert len(world.manifests[ONE].runs) < 12, "of more than 40"


@pytest.mark.parametrize("added", [1, 6])
def test_runs_in_front_of_the_local_start_are_known_after_another_look(added: int) -> None:
    world = World([1, 1, 1])
    world.now_ms, world.local_start = RULES.age_ms, 2 * RECORDS
    world.settle()
    world.add(added)
    world.settle()
    world.local_start = 3 * RECORDS
    (one,) = world.planner.plan(world.manifests)
    assert one.part[1:] == (0, 3 * RECORDS)


def test_an_old_row_in_front_is_merged_although_the_local_start_has_moved_behind_it() -> None:
    world = World([1, 1, 1, 6, 1, 1])
    world.local_start = 50
    world.settle()
    world.local_start = 60
    world.settle()
    world.now_ms = RULES.age_ms
    (one,) = world.planner.plan(world.manifests)
    assert one.part[1:] == (0, 30)


def test_the_first_of_several_rows_that_is_old_is_merged_when_it_is() -> None:
    world = World([1, 1, 1, 6, 1, 1, 1])
    assert world.planner.plan(world.manifests) == ()
    world.now_ms = RULES.age_ms
    (one,) = world.planner.plan(world.manifests)
    assert one.part[1:] == (0, 30)


def test_a_merged_run_is_of_a_higher_generation_than_each_in_it() -> None:
    runs = [run_of(0, 1), run_of(1, 1, generation=2), run_of(2, 1, generation=1)]
    assert Replacement(tuple(runs)).generation == 3


# Several partitions in one object


@pytest.mark.parametrize(("sizes", "together"), [((4, 5), 2), ((5, 5), 2), ((5, 6), 1)])
def test_parts_go_into_one_object_that_they_fill_exactly(
    sizes: tuple[int, int], together: int
) -> None:
    """What does not fit comes with the next plan, without another round."""
    counts = [(1, 1, size - 2) for size in sizes]
    world = World(counts[0])
    more = [run_of(at, size, OTHER) for at, size in enumerate(counts[1])]
    world.manifests[OTHER] = manifest_of(more)
    world.now_ms = RULES.age_ms
    first = world.planner.plan(world.manifests)
    assert len(first) == together
    if together == 1:
        (second,) = world.planner.plan({**world.manifests})
        assert second.part.topic_partition == OTHER


@pytest.mark.parametrize(("most", "together"), [(5, 1), (6, 2), (7, 2)])
def test_parts_go_into_one_object_up_to_as_many_runs_as_one_commit_takes(
    monkeypatch: pytest.MonkeyPatch, most: int, together: int
) -> None:
    monkeypatch.setattr(merge_plan, "PLAN_RUNS_MAX", most)
    world = World([1, 1, 1])
    world.manifests[OTHER] = manifest_of([run_of(at, 1, OTHER) for at in range(3)])
    world.now_ms = RULES.age_ms
    assert len(world.planner.plan(world.manifests)) == together


# What became of the runs meanwhile


def landed(*of: Replacement) -> Merge:
    """Return a merge whose object is in the store."""
    merge = Merge(tuple(of))
    name = ObjectName(CLUSTER, SET, LeaderEpoch(1), 77)
    merge.begin(name, 1 << 62)
    assert merge.uploads is not None
    runs = [merged_run(one) for one in of]
    built = Built(tuple(run.entry for run in runs), tuple(run.epochs for run in runs), 100)
    merge.uploads.put(77, built)
    return merge


def replacement(of: TopicPartition) -> Replacement:
    return Replacement(tuple(run_of(at, 1, of) for at in range(3)))


def manifest(of: TopicPartition, *changed: int) -> Manifest:
    """Return one of four runs, of which some are of another object than at first."""
    runs = [run_of(at, 1, of) for at in range(4)]
    for at in changed:
        name = ObjectName(CLUSTER, SET, LeaderEpoch(2), 500 + at)
        runs[at] = Run(name, *runs[at][1:])
    return manifest_of(runs)


@pytest.mark.parametrize("changed", [(), (0,), (1,), (2,), (3,)])
def test_a_merge_is_committed_if_each_of_its_very_runs_is_there(changed: tuple[int, ...]) -> None:
    is_sound = not set(changed) & {0, 1, 2}
    merge = landed(replacement(ONE), replacement(OTHER))
    for manifests in (
        {ONE: manifest(ONE, *changed), OTHER: manifest(OTHER)},
        {ONE: manifest(ONE), OTHER: manifest(OTHER, *changed)},
    ):
        written, events = merge.committable(manifests)
        assert (len(written), len(events)) == ((1, 2) if is_sound else (0, 0))


def test_a_merge_of_a_partition_that_is_not_there_any_more_is_given_up() -> None:
    merge = landed(replacement(ONE), replacement(OTHER))
    assert merge.committable({ONE: manifest(ONE)}) == ((), ())
    assert merge.committable({OTHER: manifest(OTHER)}) == ((), ())
