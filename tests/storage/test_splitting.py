"""A log with a bounded level 0: what is due, what becomes of it, and that no answer changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.log_world import DIRECTORY, SMALL, World, append, open_log, read_all
from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, Position, TopicPartition
from penstock.extents.layout import Entry
from penstock.inspection.pins_of_files import read_pins
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig, Retention
from penstock.storage.errors import CorruptFile, LogBusy
from penstock.storage.index.lookup import ClosedSegment, SealedLookup
from penstock.storage.second_level import judging, planning, store
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.planning import SplitPlan, SplitPlanner
from penstock.storage.second_level.split import split_segments
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import crashes
from tests.storage.second_level import IDENTITY
from tests.storage.test_stores import KEY, OTHER, fill

FOR_EVER = Retention(-1, -1)
NOTHING = Retention(0, -1)
ENTRY = Entry(*KEY, 0, 0, 1, 0, 10, -1, 64, 100, 200, 1, 10, 1, 100, 0)
NAME = f"{DIRECTORY}/second/token-1.tmp"
BOUNDED = replace(SMALL, level0_bytes=0)


class Split:
    """A log of a busy partition, of which nothing is to be kept, and one that is kept for ever."""

    def __init__(
        self,
        config: LogConfig = BOUNDED,
        disk: FaultyDisk | None = None,
        filling: Callable[[World, SetLog], object] = fill,
    ) -> None:
        self.world, self.disk = World(), disk or FaultyDisk()
        self.config = config
        self.log = open_log(self.world, self.disk, config)
        if disk is None:
            filling(self.world, self.log)

    @property
    def kept(self) -> Any:
        return self.log.open_partition(KEY)

    @property
    def closed_count(self) -> int:
        return len(list(self.log.parts.reader.closed()))

    def retain(self, now_ms: int = 0, settings: Retention = FOR_EVER) -> None:
        self.log.apply_retention(now_ms, lambda key: settings if key == KEY else NOTHING)
        self.world.run()

    def make(self, plan: SplitPlan, name: str = NAME) -> None:
        split_segments(
            self.disk, plan.directory, plan.segments, plan.wanted.get,
            unfinished=name, identity=IDENTITY,
        )  # fmt: skip

    def take_over(self, name: str = NAME) -> PlatformError | None:
        answers: list[PlatformError | None] = []
        self.log.splitting.take_over(name, answers.append)
        self.world.run()
        (error,) = answers
        return error

    def go_round(self) -> bool:
        """Plan, make and take over one file; return whether there was something to do."""
        self.retain()
        plan = self.log.splitting.plan
        if plan is not None:
            self.make(plan)
            assert self.take_over() is None
            self.retain()
        return plan is not None

    def everything(self) -> list[tuple[int, bytes]]:
        return read_all(self.world, self.log, self.kept)

    def files(self) -> list[str]:
        return self.disk.list(f"{DIRECTORY}/second")


def test_closed_segments_go_and_every_record_of_the_kept_partition_stays() -> None:
    made = Split()
    before = made.everything()
    assert made.closed_count > 2
    assert made.go_round()
    assert made.closed_count == 0
    assert made.kept.log_start_offset == 0
    assert made.everything() == before
    assert made.log.splitting.moved_bytes(made.kept) + made.kept.size_bytes == sum(
        len(body) + 16 for _, body in before
    )
    again = Split(disk=made.disk)
    assert again.everything() == before
    assert not again.go_round()


def test_nothing_is_planned_where_the_settings_say_nothing() -> None:
    made = Split(SMALL)
    made.retain(now_ms=1 << 60)
    assert made.log.splitting.plan is None
    assert made.log.splitting.backlog_bytes == 0


def test_a_segment_is_due_once_all_that_is_needed_in_it_is_old_enough() -> None:
    made = Split(replace(SMALL, level0_ms=5_000))
    entries = list(made.log.parts.reader.closed())
    newest = [newest_of(made, segment) for segment in entries]
    for count, newest_ms in enumerate(newest):
        made.retain(now_ms=newest_ms + 5_000)
        plan = made.log.splitting.plan
        assert len(plan.segments if plan else ()) == count
    made.retain(now_ms=newest[-1] + 5_001)
    plan = made.log.splitting.plan
    assert plan is not None
    assert list(plan.segments) == entries
    assert plan.wanted == {KEY: 0}


def newest_of(made: Split, segment: ClosedSegment) -> int:
    """Return the largest timestamp of the kept partition in a segment."""
    entries = SealedLookup(made.disk, DIRECTORY, (segment,)).directory_of(segment)
    return next(entry.max_timestamp for entry in entries if entry.topic_partition == KEY)


def test_a_segment_is_due_when_the_log_is_larger_than_its_bound() -> None:
    made = Split()
    ends = [segment.end for segment in made.log.parts.store.segments[:-1]]
    for bytes_max, due in (
        (made.log.end_position - ends[1], 2),
        (made.log.end_position - ends[1] + 1, 1),
        (1 << 40, 0),
    ):
        own = Split(replace(SMALL, level0_bytes=bytes_max), made.disk)
        own.retain()
        plan = own.log.splitting.plan
        assert len(plan.segments if plan else ()) == due
        own.log.close()


def test_what_expires_first_is_not_copied() -> None:
    made = Split()
    made.log.apply_retention(0, lambda _: NOTHING)
    made.world.run()
    assert made.log.splitting.plan is None
    assert made.closed_count == 0


def test_what_is_not_confirmed_is_not_planned() -> None:
    made = Split()
    made.log.is_sole_member = False
    made.retain()
    assert made.log.splitting.plan is None
    (first, *_) = made.log.parts.store.segments
    made.log.note_confirmed(first.end)
    made.retain()
    plan = made.log.splitting.plan
    assert plan is not None
    assert [one.base for one in plan.segments] == [first.base]


def test_what_is_not_synced_is_not_planned() -> None:
    """Otherwise a loss of power could leave records in an extent that the log has lost."""
    planned = []
    for flushed in (99, 100):
        planner = SplitPlanner(DIRECTORY, BOUNDED, now_ms=0, end=1000, flushed=flushed)
        planner.want(KEY, 0, Extent(0, ENTRY, Offset(0), Offset(1)))
        planner.end_segment(Position(0), Position(100), "first")
        planned.append(planner.plan())
    assert planned[0] is None
    assert planned[1] is not None


def test_a_plan_is_void_once_a_file_was_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 1)
    made = Split()
    made.retain()
    first = made.log.splitting.plan
    assert first is not None
    assert len(first.segments) == 1
    made.make(first)
    assert made.take_over() is None
    assert made.log.splitting.plan is None
    assert made.log.splitting.is_outdated
    # Whoever goes by it all the same gets a refusal, and nothing is held twice.
    made.make(first)
    assert isinstance(made.take_over(), CorruptFile)
    assert made.log.splitting.file_count == 1
    made.retain()
    assert not made.log.splitting.is_outdated
    second = made.log.splitting.plan
    assert second is not None
    assert second.segments[0].base > first.segments[0].base


def test_file_after_file_the_backlog_goes_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 1)
    made = Split()
    before = made.everything()
    made.retain()
    backlogs = [made.log.splitting.backlog_bytes]
    while made.go_round():
        backlogs.append(made.log.splitting.backlog_bytes)
    assert backlogs == sorted(backlogs, reverse=True)
    assert backlogs[-1] == 0
    assert made.log.splitting.file_count == len(backlogs) - 1 > 2
    assert made.everything() == before


def test_partitions_that_do_not_fit_a_file_come_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "WANTED_MAX", 1)
    made = Split()
    for _ in range(2):
        made.log.apply_retention(0, lambda _: FOR_EVER)
        made.world.run()
        plan = made.log.splitting.plan
        assert plan is not None
        assert len(plan.wanted) == 1
        made.make(plan)
        assert made.take_over() is None
    made.log.apply_retention(0, lambda _: FOR_EVER)
    made.world.run()
    assert made.log.splitting.plan is None
    assert made.closed_count == 0


def fill_with_few(world: World, log: SetLog) -> None:
    """Append few and large batches: there are many starts to come."""
    for number in range(40):
        append(log, log.open_partition(KEY), size=3_800, fill=number)
        append(log, log.open_partition(OTHER), size=800)
        world.run()


def test_killed_at_any_step_all_that_was_kept_is_read() -> None:
    state: dict[str, Any] = {}
    whole = Split(filling=fill_with_few).everything()

    def operation() -> None:
        made = Split(filling=fill_with_few)
        state["disk"] = made.disk
        made.retain()
        made.disk.on_operation = state["hook"]
        plan = made.log.splitting.plan
        assert plan is not None
        made.make(plan)
        assert made.take_over() is None
        made.retain()
        state["files"] = made.files()

    for _ in crashes(operation, state):
        state["disk"].power_loss()
        again = Split(disk=state["disk"])
        assert again.everything() == whole
        assert not any(name.endswith(".tmp") for name in again.files())
        again.go_round()
        assert again.closed_count == 0
        assert again.everything() == whole
    assert state["steps"] > 20


def test_a_file_of_a_log_that_was_opened_anew_meanwhile_is_not_taken_over() -> None:
    made = Split()
    made.retain()
    splitting, plan = made.log.splitting, made.log.splitting.plan
    assert plan is not None
    made.make(plan)
    made.log.is_sole_member = False
    answers: list[object] = []
    made.log.truncate(plan.segments[1].base, answers.append)
    made.world.run()
    assert answers == [None]
    assert made.log.splitting is not splitting
    assert made.log.splitting.plan is None
    splitting.take_over(NAME, answers.append)
    made.world.run()
    assert isinstance(answers[1], LogBusy)
    assert made.files() == []
    assert made.log.splitting.file_count == 0


def test_a_change_under_way_ends_before_the_log_is_opened_anew() -> None:
    for steps in range(12):
        made = Split()
        made.retain()
        plan = made.log.splitting.plan
        assert plan is not None
        made.make(plan)
        made.log.is_sole_member = False
        answers: list[object] = []
        made.log.splitting.take_over(NAME, answers.append)
        for _ in range(steps):
            if made.world.work:
                made.world.work_one()
            made.world.turn()
        # Nothing that is held may go: the log is cut behind what was split.
        end = made.log.end_position
        made.log.truncate(made.log.parts.store.active.base, answers.append)
        made.world.run()
        assert made.log.end_position < end
        assert len(answers) == 2
        assert made.log.splitting.file_count == (None in answers[:1] or answers.count(None) == 2)
        held = made.log.parts.second_level.held(KEY)
        again = open_log(World(), made.disk, BOUNDED)
        assert again.parts.second_level.held(KEY) == held


def test_large_files_are_taken_over_some_extents_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (store, judging):
        monkeypatch.setattr(module, "EXTENTS_PER_SLICE", 3)
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, BOUNDED)
    keys = [TopicPartition(KEY.topic_id, number) for number in range(20)]
    while len(list(log.parts.reader.closed())) < 2:
        for key in keys:
            append(log, log.open_partition(key), size=500)
        world.run()
    log.apply_retention(0, lambda _: FOR_EVER)
    world.run()
    plan = log.splitting.plan
    assert plan is not None
    split_segments(
        disk, DIRECTORY, plan.segments, plan.wanted.get, unfinished=NAME, identity=IDENTITY
    )
    answers: list[object] = []
    log.splitting.take_over(NAME, answers.append)
    held: list[int] = []
    while not answers:
        before = len(log.parts.second_level._held.partitions())
        handles, world.soon = list(world.soon), type(world.soon)()
        for handle in handles:
            assert handle.callback is not None
            handle.callback()
        if not handles:
            world.work_one()
        held.append(len(log.parts.second_level._held.partitions()) - before)
    assert answers == [None]
    assert sum(held) == 20
    assert max(held) == 3
    drops: list[tuple[TopicPartition, int | None]] = [(key, None) for key in keys]
    log.parts.second_level._drop(drops)
    assert len(log.parts.second_level._held.partitions()) == 17
    world.run()
    assert log.splitting.file_count == 0
    assert all(not name.endswith(".extents") for name in disk.list(f"{DIRECTORY}/second"))


def test_a_log_start_that_retention_raises_by_moved_records_alone_outlives_a_loss_of_power() -> (
    None
):
    """The partition is idle, and the commit log has nothing of it that a pass would judge."""
    made = Split()
    assert made.go_round()
    end = made.kept.log_end_offset
    start = made.kept.commit_log_start_offset
    assert 0 < start < end
    made.retain(settings=Retention(made.kept.size_bytes, -1))
    assert made.log.splitting.file_count == 0, "its file is gone"
    made.disk.power_loss()
    again = Split(disk=made.disk)
    assert (again.kept.log_start_offset, again.kept.log_end_offset) == (start, end)


def test_a_file_that_goes_late_is_not_one_of_the_log_that_was_opened_anew() -> None:
    """A read holds the removal up; meanwhile the log is reset, and its numbers begin again."""
    made = Split()
    assert made.go_round()
    ticket = made.log.parts.store.guard.enter()
    guard = made.log.parts.store.guard
    made.log.apply_retention(0, lambda _: NOTHING)
    made.world.run()
    assert made.log.splitting.file_count == 0
    answers: list[object] = []
    made.log.reset_to(Position(0), Position(65_536), answers.append)
    made.world.run()
    assert answers == [None]
    made.log.begin_epoch(made.log.leader_epoch + 1)  # type: ignore[arg-type]
    fill(made.world, made.log)
    before = made.everything()
    assert made.go_round()
    guard.leave(ticket)
    made.world.run()
    assert made.everything() == before
    assert Split(disk=made.disk).everything() == before


def test_damage_is_told_unless_the_log_has_that_place_no_longer() -> None:
    made = Split()
    told: list[int] = []
    made.log.on_damage = lambda position, _: told.append(position)
    made.log.splitting.on_damage(Position(100), "a frame")
    assert told == [100]
    assert made.go_round()
    made.log.splitting.on_damage(Position(100), "a frame of a file that was deleted")
    assert told == [100]


def test_a_plan_ends_where_a_segment_could_not_be_read() -> None:
    planner = SplitPlanner(DIRECTORY, BOUNDED, now_ms=0, end=1000, flushed=1000)
    for number in range(3):
        if number == 2:
            planner.stop()
        planner.want(KEY, number, Extent(0, ENTRY, Offset(0), Offset(1)))
        planner.end_segment(
            Position(number * 100), Position(number * 100 + 100), f"segment {number}"
        )
    plan = planner.plan()
    assert plan is not None
    assert [one.base for one in plan.segments] == [0, 100]
    assert plan.wanted == {KEY: 0}
    assert planner.backlog_bytes == plan.batch_bytes == 2 * ENTRY.batch_bytes


def test_what_was_moved_keeps_no_file_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 2)
    made = Split()
    made.retain()
    before = read_pins(made.disk, DIRECTORY)
    assert before.second_level == (0, 0, 0, 0, 0)
    assert before.pins.partitions[KEY].segments == made.closed_count
    plan = made.log.splitting.plan
    assert plan is not None
    made.make(plan)
    assert made.take_over() is None
    moved = read_pins(made.disk, DIRECTORY)
    assert moved.pins.partitions[KEY].segments == made.closed_count - 2
    assert moved.second_level.files == moved.second_level.partitions == 1
    assert moved.second_level.size_bytes == made.log.splitting.file_bytes
    held_bytes = made.log.splitting.shrinking.held_bytes
    assert moved.second_level.needed_bytes == held_bytes
    assert moved.moved[KEY].files == moved.moved[KEY].extents == moved.second_level.extents == 1
    assert 0 < moved.moved[KEY].batch_bytes < held_bytes
