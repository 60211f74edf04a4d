"""Pieces of the tier: what is planned of a range, and that a task gives its rows, each once."""

import itertools
import time
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.tier import TierPart
from penstock.extents.layout import BLOCK_BYTES, Aborted
from penstock.protocol.own_fields import TierState
from penstock.spark.errors import HistoryUnreadable
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.spark.tier import plan, store
from penstock.spark.tier.piece import Planned
from penstock.spark.tier.reading import TierRun
from penstock.tier.metadata.manifest import EventGroup, Kind
from simulator.kernel.object_store import Bucket, Fate, ModelledStore
from tests.extents.files import Part, batch, key
from tests.spark.tier_world import (
    NAME,
    ONE,
    TOPIC,
    Leader,
    history,
    marker,
    objects,
    offsets_of,
    plain,
    planned,
    planner,
    rows,
    transactional,
)
from tests.tier.objects import change, file_at, manifest_of, name, put

BIG = BLOCK_BYTES // 2


class World(NamedTuple):
    bucket: Bucket
    fates: dict[str, Fate]
    """By the kind of a request to the store."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(Bucket(), {})

    def fate(kind: str, _: str) -> Fate:
        return made.fates.get(kind, Fate.DONE)

    opened = ModelledStore(made.bucket, fate)
    monkeypatch.setattr(store, "open_store", lambda *_: opened)
    return made


def spans(parts: list[Planned]) -> list[tuple[int, int, bool]]:
    return [(one.wanted.start, one.wanted.end, one.piece is not None) for one in parts]


def test_a_range_is_cut_where_the_tier_begins_and_ends(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(4, 5), plain(6, 7)]))
    assert spans(planned(leader, 2, 10)) == [(2, 4, False), (4, 8, True), (8, 10, False)]
    assert spans(planned(leader, 2, 10, cut=False)) == [(2, 4, False), (4, 10, True)]
    assert spans(planned(leader, 5, 7)) == [(5, 7, True)]
    assert spans(planned(leader, 8, 10)) == [(8, 10, False)]
    assert spans(planned(leader, 0, 4)) == [(0, 4, False)]
    assert rows(leader, planned(leader, 5, 7)) == [5, 6]


def test_long_history_becomes_several_tasks_at_the_ends_of_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PIECE_BYTES", 150)
    parts = [plain(at, at + 1) for at in range(0, 20, 2)]
    leader = Leader(objects(world.bucket, parts))
    found = planned(leader, 1, 20)
    assert len(found) > 3
    assert [one.wanted.start for one in found[1:]] == [one.wanted.end for one in found[:-1]]
    assert all(one.wanted.start % 2 == 0 for one in found[1:])
    assert rows(leader, found) == list(range(1, 20))
    runs = [one.piece.runs for one in found if one.piece is not None]
    assert all(len(own) < len(parts) // 2 for own in runs), "a task gets what it needs"


def test_what_was_deleted_from_the_tier_is_not_planned(world: World) -> None:
    manifest = objects(world.bucket, [plain(0, 1, 2, 3), plain(4, 5)])
    manifest.apply(EventGroup(Kind.DELETE, ONE, offset=2))
    assert spans(planned(Leader(manifest), 0, 6)) == [(0, 2, False), (2, 6, True)]


@st.composite
def histories(draw: st.DrawFn) -> list[list[bytes]]:
    """Batches by object; offsets may be missing, as after cleaning."""
    made, offset = [], 0
    for _ in range(draw(st.integers(1, 3))):
        own = []
        for _ in range(draw(st.integers(1, 5))):
            offset += draw(st.sampled_from((0, 0, 3)))
            count = draw(st.integers(1, 3))
            size = draw(st.sampled_from((3, BIG, BLOCK_BYTES + 9, 3 * BLOCK_BYTES)))
            own.append(batch(offset, records=count, size=size))
            offset += count
        made.append(own)
    return made


def test_rows_of_a_range_are_those_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    @given(histories(), st.data())
    def check(batches: list[list[bytes]], data: st.DataObject) -> None:
        bucket = Bucket()
        monkeypatch.setattr(store, "open_store", lambda *_: ModelledStore(bucket))
        runs = [
            run
            for at, own in enumerate(batches, 1)
            for run in put(bucket, name(at), [Part(ONE, own, generation=1)])
        ]
        linked = [
            one._replace(
                end_offset=after.first_offset,
                entry=one.entry._replace(end_offset=after.first_offset),
            )
            for one, after in pairwise(runs)
        ]
        leader = Leader(manifest_of([*linked, runs[-1]]), page=data.draw(st.integers(1, 3)))
        first, end = leader.manifest.start_offset, leader.manifest.end_offset
        start = data.draw(st.integers(first, end - 1))
        stop = data.draw(st.integers(start + 1, end))
        every = offsets_of([one for run in batches for one in _as_runs(run, start, stop)])
        found = planner(is_committed_only=False).plan(
            leader, [OffsetRange(TOPIC, 0, start, stop)], cut=True
        )
        assert rows(leader, found, is_committed_only=False) == every

    check()


def _as_runs(batches: list[bytes], start: int, end: int) -> list[TierRun]:
    return [TierRun(start, end, memoryview(b"".join(batches)))]


def aborted(*gone: tuple[int, int, int, int]) -> Aborted:
    """Return notes: producer, first offset, offset of the marker, first undecided behind it."""
    return Aborted(*(list(column) for column in zip(*gone, strict=True))) if gone else Aborted()


def test_a_producer_that_aborted_before_counts_in_the_windows_behind_its_marker(
    world: World,
) -> None:
    first = [transactional(0, 7), batch(1, size=3 * BLOCK_BYTES), marker(2, 7, is_commit=False)]
    then = [batch(3, size=3 * BLOCK_BYTES), transactional(4, 7), marker(5, 7, is_commit=True)]
    part = Part(ONE, [*first, *then], aborted((7, 0, 2, 3)), decided_end=6)
    leader = Leader(objects(world.bucket, [part]))
    assert rows(leader, planned(leader, 0, 6)) == [1, 3, 4]
    uncommitted = planner(is_committed_only=False).plan(leader, [OffsetRange(TOPIC, 0, 0, 6)])
    assert rows(leader, uncommitted, is_committed_only=False) == [0, 1, 3, 4]


def test_what_a_later_object_says_was_aborted_is_left_out(world: World) -> None:
    begun = Part(ONE, [batch(0), transactional(1, 7)], decided_end=1)
    between = Part(ONE, [batch(2), batch(3)], decided_end=1)
    ended = Part(
        ONE, [marker(4, 7, is_commit=False), batch(5)], aborted((7, 1, 4, 5)), decided_end=6
    )
    leader = Leader(objects(world.bucket, [begun, between, ended]), page=1)
    assert rows(leader, planned(leader, 0, 3)) == [0, 2]
    assert spans(planned(leader, 0, 3)) == [(0, 3, True)]


def test_what_the_tier_does_not_decide_yet_is_left_to_brokers(world: World) -> None:
    begun = Part(ONE, [batch(0), batch(1), transactional(2, 7)], decided_end=2)
    between = Part(ONE, [batch(3), batch(4)], decided_end=2)
    leader = Leader(objects(world.bucket, [begun, between]), page=1)
    assert spans(planned(leader, 0, 5)) == [(0, 2, True), (2, 5, False)]
    assert spans(planned(leader, 3, 5)) == [(3, 5, False)]
    both = planner(is_committed_only=False).plan(leader, [OffsetRange(TOPIC, 0, 0, 5)], cut=True)
    assert spans(both) == [(0, 5, True)]


def test_a_tier_that_begins_behind_an_open_transaction_decides_nothing(world: World) -> None:
    part = Part(ONE, [batch(4), batch(5)], decided_end=2)
    leader = Leader(objects(world.bucket, [part]))
    assert spans(planned(leader, 0, 6)) == [(0, 6, False)]


def test_what_a_cut_took_is_not_read_though_it_lies_there(world: World) -> None:
    manifest = objects(world.bucket, [Part(ONE, [batch(0, records=4)])])
    manifest.apply(EventGroup(Kind.CUT, ONE, offset=2))
    leader = Leader(manifest)
    found = planner(is_committed_only=False).plan(leader, [OffsetRange(TOPIC, 0, 0, 4)], cut=True)
    assert spans(found) == [(0, 2, True), (2, 4, False)]
    assert rows(leader, found[:1], is_committed_only=False) == [0, 1]


def test_no_leader_is_asked_while_the_lease_lasts(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1), plain(2, 3)]))
    found = planned(leader, 0, 4)
    leader.asked.clear()
    assert rows(leader, found) == [0, 1, 2, 3]
    assert leader.asked == []


def test_a_task_that_outlives_its_lease_asks_again_from_where_it_is(world: World) -> None:
    big = [plain(at, size=5 * BLOCK_BYTES) for at in range(4)]
    leader = Leader(objects(world.bucket, big), lease_ms=-1)
    found = planned(leader, 0, 4)
    leader.asked.clear()
    reading = history(leader).runs(found[0])
    assert offsets_of([next(reading)]) == [0]
    for one in list(world.bucket.objects)[1:]:  # they were written anew meanwhile
        del world.bucket.objects[one]
    runs = [run for at in range(1, 4) for run in put(world.bucket, name(at + 9), [plain(at)])]
    leader.manifest = manifest_of(runs, ONE)
    leader.lease_ms = 60_000
    assert offsets_of(list(reading)) == [1, 2, 3]
    assert leader.asked
    assert min(leader.asked) == 1


def test_the_last_window_needs_no_lease_behind_it(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]), lease_ms=-1)
    found = planned(leader, 0, 2)
    leader.asked.clear()
    assert rows(leader, found) == [0, 1]
    assert leader.asked == []


def test_an_object_that_is_gone_is_looked_for_again_and_then_named(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1), plain(2, 3)]))
    found = planned(leader, 0, 4)
    del world.bucket.objects[str(name(2))]
    leader.asked.clear()
    with pytest.raises(HistoryUnreadable, match=f"{name(2)}.*lost"):
        rows(leader, found)
    assert leader.asked, "nobody was asked whether it is somewhere else"


def test_what_went_by_retention_is_left_to_brokers_which_say_so(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1), plain(2, 3)]))
    (part,) = planned(leader, 0, 4)
    world.bucket.objects.clear()
    leader.manifest.apply(EventGroup(Kind.DELETE, ONE, offset=4))
    assert list(history(leader).runs(part)) == []


def test_a_beginning_that_went_meanwhile_is_left_to_brokers_as_a_whole(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1), plain(2, 3)]))
    (part,) = planned(leader, 0, 4)
    del world.bucket.objects[str(name(1))]
    leader.manifest.apply(EventGroup(Kind.DELETE, ONE, offset=2))
    assert list(history(leader).runs(part)) == [], "rows behind a gap that nobody was told of"


def test_a_topic_that_was_made_again_is_not_read_in_the_old_ones_place(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    found = planned(leader, 0, 2)
    world.bucket.objects.clear()
    again = key(9, 0)
    leader.manifest = manifest_of(
        put(world.bucket, name(5), [Part(again, [batch(0), batch(1)])]), again
    )
    with pytest.raises(HistoryUnreadable, match="created again"):
        rows(leader, found)


@pytest.mark.parametrize("use", ["auto", "required"])
def test_damage_is_refused_by_name_and_never_passed_over(world: World, use: str) -> None:
    manifest = objects(world.bucket, [plain(0, 1), plain(2, 3)])
    leader = Leader(manifest)
    found = planned(leader, 0, 4)
    change(world.bucket, name(2), file_at(manifest.runs[1].entry.extent_at + 70))
    reading = history(leader, use)
    runs = reading.runs(found[0])
    assert offsets_of([next(runs)]) == [0, 1]
    with pytest.raises(HistoryUnreadable, match=str(name(2))):
        next(runs)


def test_a_store_that_fails_a_task_leaves_the_rest_to_brokers_or_ends_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    found = planned(leader, 0, 2)
    world.fates["read"] = Fate.FAILED
    assert list(history(leader, "auto").runs(found[0])) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{NAME}: history from 0 comes from brokers" in line
    with pytest.raises(HistoryUnreadable, match="t-0 from offset 0"):
        rows(leader, found)


def test_a_store_that_fails_the_driver_is_said_once_and_brokers_are_asked(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    world.fates["read"] = Fate.REFUSED
    asking = planner(use="auto")
    wanted = [OffsetRange(TOPIC, 0, 0, 2)]
    assert spans(asking.plan(leader, wanted)) == spans(asking.plan(leader, wanted))
    (line,) = capsys.readouterr().err.splitlines()
    assert "history of t-0 comes from brokers" in line
    with pytest.raises(HistoryUnreadable):
        planned(leader, 0, 2)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_driver_that_does_not_find_an_object_names_it_and_asks_brokers(
    world: World, missing: int, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1), plain(2, 3)]))
    del world.bucket.objects[str(name(missing))]
    wanted = [OffsetRange(TOPIC, 0, 0, 4)]
    assert spans(planner(use="auto").plan(leader, wanted)) == [(0, 4, False)]
    (line,) = capsys.readouterr().err.splitlines()
    assert str(name(missing)) in line
    with pytest.raises(HistoryUnreadable, match=str(name(missing))):
        planned(leader, 0, 4)


def test_a_driver_that_finds_damage_ends_the_job(world: World) -> None:
    manifest = objects(world.bucket, [plain(0, 1)])
    change(world.bucket, name(1), file_at(manifest.runs[0].entry.summary_at))
    with pytest.raises(HistoryUnreadable, match=str(name(1))):
        planner(use="auto").plan(Leader(manifest), [OffsetRange(TOPIC, 0, 0, 2)])


@pytest.mark.parametrize("state", [TierState.NONE, TierState.UNKNOWN])
def test_a_leader_that_has_nothing_or_does_not_know_is_not_asked_each_time(
    world: World, state: TierState
) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    leader.state = state
    asking = planner(use="auto")
    for _ in range(3):
        assert spans(asking.plan(leader, [OffsetRange(TOPIC, 0, 0, 2)])) == [(0, 2, False)]
    assert leader.asked == [0]


def test_history_that_must_come_from_the_store_is_not_read_before_the_leader_knows_it(
    world: World,
) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    leader.state = TierState.UNKNOWN
    with pytest.raises(HistoryUnreadable, match="does not know"):
        planned(leader, 0, 2)


def test_a_stream_ahead_of_the_tier_does_not_ask_for_each_batch(world: World) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    asking = planner()
    for start in (2, 3, 4):
        assert spans(asking.plan(leader, [OffsetRange(TOPIC, 0, start, start + 1)])) == [
            (start, start + 1, False)
        ]
    assert leader.asked == [2]
    assert spans(asking.plan(leader, [OffsetRange(TOPIC, 0, 0, 1)])) == [(0, 1, True)]


def test_the_lease_counts_from_before_the_question(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(objects(world.bucket, [plain(0, 1)]))
    ticks = itertools.count(1_000)
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: float(next(ticks)))
        (part,) = planned(leader, 0, 2)
    assert part.piece is not None
    assert part.piece.until_ms == 1_000_000 + leader.lease_ms


def test_a_lease_that_is_over_is_not_relied_on_though_everything_is_there(world: World) -> None:
    big = [plain(at, size=5 * BLOCK_BYTES) for at in range(4)]
    leader = Leader(objects(world.bucket, big), lease_ms=-1)
    found = planned(leader, 0, 4)
    leader.asked.clear()
    assert rows(leader, found) == [0, 1, 2, 3]
    assert leader.asked[0] == 1


def test_runs_that_are_merged_between_two_answers_of_the_leader_are_read_as_one(
    world: World,
) -> None:
    """Runs 2 to 5 become one when the driver knows the first four, and asks for more."""
    batches = [[batch(2 * at), batch(2 * at + 1)] for at in range(8)]
    manifest = objects(world.bucket, [Part(ONE, own) for own in batches])
    together = [one for own in batches[2:6] for one in own]
    (merged,) = put(world.bucket, name(9), [Part(ONE, together, generation=1)])

    class Merging(Leader):
        def tier_part(self, of: PartitionName, offset: int) -> TierPart:
            if offset == 8:
                self.manifest.apply(EventGroup(Kind.REPLACE, ONE, (merged,)))
            return super().tier_part(of, offset)

    leader = Merging(manifest, page=4)
    found = planned(leader, 0, 16, cut=False)
    assert spans(found) == [(0, 16, True)]
    (piece,) = [one.piece for one in found]
    assert piece is not None
    assert [run.first_offset for run in piece.runs] == [0, 2, 4, 12, 14]
    assert rows(leader, found) == list(range(16))
