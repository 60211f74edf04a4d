"""An extent file of which half or less is held is written anew without the rest, in its place."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log_world import DIRECTORY, SMALL, World, append, open_log, partition_number, read_all
from penstock.base.ids import Offset, TopicPartition
from penstock.extents.layout import ENTRY, ENTRY_BYTES, FILE_BYTES_MIN, Entry
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Answer, Failed, Made, ShrinkJob
from penstock.housekeeper.metered import MeteredDisk
from penstock.inspection.pins_of_files import read_pins
from penstock.inspection.verify_extents import second_level_findings
from penstock.storage.commit_log.pins import NOTHING_MOVABLE
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import Retention
from penstock.storage.errors import CorruptFile
from penstock.storage.second_level.file_pins import FILE_BYTES
from penstock.storage.second_level.files import read_manifest
from penstock.storage.second_level.held import HeldExtents
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.shrinking import ShrinkPlan, least_bytes
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import crashes, open_member
from tests.storage.second_level import IDENTITY, UNFINISHED, closed_segments, split

NEW = f"{DIRECTORY}/second/new.tmp"
KEYS = tuple(partition_number(number) for number in range(4))
LONG, SHORT = KEYS[0], KEYS[1]
MOVES = replace(SMALL, level0_bytes=0)
LEAST = least_bytes(SMALL)
KEEP, DROP = Retention(-1, -1), Retention(0, -1)


class Level:
    """A log whose closed segments went to its second level, with what was written there."""

    def __init__(self, disk: FaultyDisk | None = None) -> None:
        self.world, self.disk = World(), disk or FaultyDisk()
        self.log: SetLog = open_log(self.world, self.disk, MOVES)
        self.written_bytes = 0

    def write(self, turns: int, sizes: dict[TopicPartition, int]) -> "Level":
        """Append batches of each partition in turn, of so many bytes each; split what closes."""
        for number in range(turns):
            for key, size in sizes.items():
                append(self.log, self.log.open_partition(key), size=size, timestamp=1_000 + number)
            self.world.run()
        self.split()
        return self

    def split(self) -> None:
        second = self.log.parts.second_level
        for segment in closed_segments(self.log):
            if entries := split(self.disk, second, [segment], KEYS):
                told: list[object] = []
                self.log.splitting.take_over(UNFINISHED, told.append)
                self.world.run()
                assert told == [None]
                self.written_bytes += sum(one.batch_bytes for one in entries)
        self.retain()

    def retain(self, of: dict[TopicPartition, Retention] | None = None) -> None:
        self.log.apply_retention(0, lambda key: (of or {}).get(key, KEEP))
        self.world.run()

    def drop(self, key: TopicPartition, offset: int) -> None:
        """Delete the records of a partition below an offset, and let the files go."""
        self.log.delete_records(self.log.open_partition(key), Offset(offset))
        self.world.run()
        self.retain()

    @property
    def shrinking(self) -> Any:
        return self.log.splitting.shrinking

    def plan(self, number: int | None = None) -> ShrinkPlan | None:
        """Return the plan for a file; the next one that is to be shrunk if none is named."""
        chosen = self.shrinking.next_file(MOVES) if number is None else number
        if chosen is None:
            return None
        told: list[ShrinkPlan | None] = []
        self.shrinking.plan(chosen, MOVES, told.append)
        self.world.run()
        (plan,) = told
        return plan

    def make(self, plan: ShrinkPlan) -> Answer:
        job = ShrinkJob(
            *("", DIRECTORY, NEW, *IDENTITY, 0, plan.file_number, plan.batch_bytes, plan.kept)
        )
        return run_job(MeteredDisk(self.disk, lambda _: None), job)

    def put(self, number: int) -> object:
        told: list[object] = []
        self.log.splitting.put_instead(number, NEW, told.append)
        self.world.run()
        (error,) = told
        return error

    def shrink(self) -> int:
        """Shrink files until none is to be; return the bytes of batches that were copied."""
        copied = 0
        for _ in range(200):
            plan = self.plan()
            if plan is None:
                return copied
            answer = self.make(plan)
            assert isinstance(answer, Made), answer
            assert answer.batch_bytes == plan.batch_bytes
            copied += answer.batch_bytes
            assert self.put(plan.file_number) is None
        raise AssertionError("there is always one more")

    def everything(self) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        found = {}
        for key in KEYS:
            partition = self.log.open_partition(key)
            found[key] = read_all(self.world, self.log, partition)
        return found

    def opened_anew(self) -> "Level":
        self.log.close()
        other = Level.__new__(Level)
        other.world, other.disk = World(), self.disk
        other.log = open_member(other.world, self.disk)
        return other

    def extents(self, key: TopicPartition) -> list[Any]:
        return list(self.log.splitting.extents(key))

    def numbers(self) -> list[int]:
        return [one.number for one in read_manifest(ExtentPlace(self.disk, DIRECTORY)).files]

    def check_bound(self) -> None:
        """The files take twice what is held of them, and a little for each file, or less."""
        splitting = self.log.splitting
        each = LEAST + FILE_BYTES_MIN
        bound = 2 * self.shrinking.held_bytes + each * splitting.file_count
        assert splitting.file_bytes <= bound
        names = [name for name in self.disk.list(f"{DIRECTORY}/second") if name != "manifest"]
        sizes = [len(self.disk.names[f"{DIRECTORY}/second/{name}"].data) for name in names]
        assert sum(sizes) == splitting.file_bytes


@pytest.fixture
def level() -> Level:
    """Files of mostly short-lived records, with a little that is kept for long in each."""
    return Level().write(90, {SHORT: 2_000, LONG: 200})


def end_of(level: Level, key: TopicPartition) -> int:
    return level.log.open_partition(key).log_end_offset


def test_files_of_which_little_is_held_are_freed_and_everything_is_still_read(level: Level) -> None:
    before = level.log.splitting.file_bytes
    assert level.plan() is None, "all of it is held"
    level.drop(SHORT, end_of(level, SHORT) - 1)
    assert level.log.splitting.file_bytes == before, "nothing goes by itself"
    wanted = level.everything()
    assert len(wanted[LONG]) == 90
    copied = level.shrink()
    assert 0 < copied < before // 5
    assert level.log.splitting.file_bytes < before // 5
    level.check_bound()
    assert level.everything() == wanted
    assert list(second_level_findings(level.disk, DIRECTORY)) == []
    assert level.opened_anew().everything() == wanted


def test_files_stand_where_the_old_ones_stood_and_these_are_removed(level: Level) -> None:
    files = level.numbers()
    level.drop(SHORT, end_of(level, SHORT) - 1)
    level.shrink()
    new = level.numbers()
    assert len(new) == len(files)
    assert min(new) > max(files)
    assert new == sorted(new), "the oldest was first"
    names = level.disk.list(f"{DIRECTORY}/second")
    assert names == [*(f"{number:020d}.extents" for number in new), "manifest"]


def test_what_is_needed_of_the_files_is_read_from_them(level: Level) -> None:
    level.drop(SHORT, end_of(level, SHORT) - 1)
    files = len(level.numbers())
    for _ in range(2):
        found = read_pins(level.disk, DIRECTORY)
        assert found.second_level.needed_bytes == level.shrinking.held_bytes
        assert found.second_level.size_bytes == level.log.splitting.file_bytes
        assert list(found.moved) == [LONG]
        assert found.moved[LONG].files == found.second_level.extents == files
        level.shrink()


def test_a_file_of_which_more_than_half_is_held_stays(level: Level) -> None:
    level.drop(LONG, end_of(level, LONG) - 1)
    assert level.plan() is None


def test_little_that_is_needless_is_left() -> None:
    level = Level()
    held = level.log.parts.second_level._held
    entry = Entry(*SHORT, 0, 0, 10, 1, 1, -1, 64, LEAST, 0, 1, 24, 1, LEAST, 0)
    other = entry._replace(partition=KEYS[2].partition)
    small = entry._replace(extent_bytes=10, batch_bytes=10, partition=KEYS[3].partition)
    for number, dropped in enumerate((small, entry)):
        rest = other._replace(
            extent_bytes=5, batch_bytes=5, first_offset=number, end_offset=number + 1
        )
        pair = sorted((dropped, rest))
        held.add(number, b"".join(ENTRY.pack(*one) for one in pair))
        assert held.drop_before(dropped.topic_partition, None) == []
    assert level.shrinking.next_file(MOVES) == 1
    assert level.shrinking.next_file(replace(MOVES, segment_bytes=1 << 30)) is None


def test_a_record_that_is_dropped_meanwhile_does_not_come_back(level: Level) -> None:
    level.drop(SHORT, end_of(level, SHORT) - 1)
    plan = level.plan()
    assert plan is not None
    assert isinstance(level.make(plan), Made)
    half = end_of(level, LONG) // 2
    level.drop(LONG, half)
    wanted = level.everything()
    assert wanted[LONG][0][0] == half
    assert plan.file_number not in level.numbers(), "its last extent has gone"
    assert level.put(plan.file_number) is None
    assert level.everything() == wanted
    assert level.opened_anew().everything() == wanted
    level.log = level.opened_anew().log
    level.shrink()
    level.check_bound()


def test_what_does_not_have_all_that_is_held_is_refused(level: Level) -> None:
    level.drop(SHORT, end_of(level, SHORT) - 1)
    plan, other = level.plan(), level.plan(level.numbers()[1])
    assert plan is not None
    assert other is not None
    level.make(other)
    assert isinstance(level.put(plan.file_number), CorruptFile)
    assert level.disk.list(f"{DIRECTORY}/second").count("new.tmp") == 0
    level.shrink()
    level.check_bound()


def test_what_an_unclean_election_has_cut_does_not_come_back(level: Level) -> None:
    second, first = level.log.parts.second_level, level.numbers()[0]
    extents = level.extents(LONG)
    assert extents[0].file_number == first
    end = extents[0].end_offset - 3
    level.drop(SHORT, end_of(level, SHORT) - 1)
    second.cut({LONG: end})
    plan = level.plan(first)
    assert plan is not None
    assert isinstance(level.make(plan), Made)
    assert level.put(first) is None
    (left,) = level.extents(LONG)
    assert left.file_number > first
    assert (left.entry.end_offset, left.end_offset) == (end, end)


def test_damage_is_found_by_its_file_and_nothing_is_left_behind(level: Level) -> None:
    level.drop(SHORT, end_of(level, SHORT) - 1)
    plan = level.plan()
    assert plan is not None
    path = extent_path(DIRECTORY, plan.file_number)
    whole = bytes(level.disk.names[path].data)
    found = []
    for at in (10, 100, len(whole) // 2, len(whole) - 200, len(whole) - 10):
        level.disk.flip_bit(path, at, 3)
        answer = level.make(plan)
        found.append(isinstance(answer, Failed) and answer.damaged_file == plan.file_number)
        level.disk.flip_bit(path, at, 3)
        if found[-1]:
            assert "new.tmp" not in level.disk.list(f"{DIRECTORY}/second")
        level.disk.remove(NEW)
    # In the middle is what is dropped: nobody needs it.
    assert found == [True, True, False, True, True]
    level.disk.remove(path)
    answer = level.make(plan)
    assert isinstance(answer, Failed)
    assert answer.damaged_file == plan.file_number


def test_damaged_files_are_left_to_their_repair(level: Level) -> None:
    level.drop(SHORT, end_of(level, SHORT) - 1)
    first, second = level.numbers()[:2]
    assert level.shrinking.next_file(MOVES) == first
    level.log.splitting.damage.files[first] = "a bit"
    assert level.shrinking.next_file(MOVES) == second


def test_a_crash_at_any_step_leaves_either_file() -> None:
    state: dict[str, Any] = {}
    wanted: list[Any] = []
    bases: list[int] = []

    def operation() -> None:
        level = Level(FaultyDisk()).write(60, {SHORT: 2_000, LONG: 200})
        level.drop(SHORT, end_of(level, SHORT) - 1)
        plan = level.plan()
        assert plan is not None
        wanted[:], bases[:] = [level.everything()], level.numbers()
        state["disk"] = level.disk
        level.disk.on_operation = state["hook"]
        level.make(plan)
        level.put(plan.file_number)

    found = []
    for _ in crashes(operation, state):
        state["disk"].power_loss()
        again = Level.__new__(Level)
        again.world, again.disk = World(), state["disk"]
        again.log = open_member(again.world, again.disk)
        assert again.everything() == wanted[0]
        numbers = again.numbers()
        names = again.disk.list(f"{DIRECTORY}/second")
        assert names == [*(f"{one:020d}.extents" for one in sorted(numbers)), "manifest"]
        found.append(numbers[0])
    assert state["steps"] > 10
    assert set(found) == {bases[0], bases[-1] + 1}


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_files_take_twice_what_is_held_and_copies_never_more_than_was_moved(random: Random) -> None:
    level, copied = Level(), 0
    for _ in range(5):
        sizes = {key: random.choice((100, 700, 2_500)) for key in KEYS}
        level.write(30, sizes)
        for key in random.sample(KEYS, random.randrange(4)):
            partition = level.log.open_partition(key)
            level.drop(key, random.randint(partition.log_start_offset, partition.log_end_offset))
        wanted = level.everything()
        copied += level.shrink()
        assert level.everything() == wanted
        level.check_bound()
        assert copied <= level.written_bytes


def test_files_that_only_movable_partitions_need_are_told_with_what_they_need() -> None:
    level = Level().write(40, {SHORT: 2_000, LONG: 200, KEYS[2]: 300})
    movable = KEEP._replace(is_movable=True)
    level.retain({LONG: movable, KEYS[2]: movable})
    assert level.log.pins.movable == NOTHING_MOVABLE, "the short-lived ones need all files"
    level.retain({LONG: movable, KEYS[2]: movable, SHORT: DROP})
    files = level.numbers()
    (small,) = {one.file_number for one in level.extents(LONG)[:1]}
    for _ in range(2):
        level.retain({LONG: movable, KEYS[2]: movable})
        told = level.log.pins.movable
        held = level.shrinking.held_bytes
        assert told.size_bytes == held + FILE_BYTES * len(files)
        assert set(told.partitions) == {LONG, KEYS[2]}
        assert told.oldest_base == -1
        assert told.oldest_file == min(level.numbers())
        level.shrink()
    assert small not in level.numbers()
    level.retain({LONG: movable})
    assert level.log.pins.movable == NOTHING_MOVABLE, "one that can not move needs each of them"
    level.drop(KEYS[2], end_of(level, KEYS[2]) - 1)
    level.retain({LONG: movable})
    told = level.log.pins.movable
    assert told.partitions == (LONG,)
    level.drop(LONG, end_of(level, LONG) - 1)
    level.retain({LONG: movable})
    assert level.log.pins.movable.size_bytes < told.size_bytes


PARTITIONS = st.integers(0, 3)


@given(
    st.lists(
        st.tuples(st.lists(st.tuples(PARTITIONS, st.integers(1, 900)), min_size=1), PARTITIONS),
        max_size=8,
    ),
    st.data(),
)
def test_what_is_counted_of_each_file_is_what_is_held_of_it(files: list[Any], data: Any) -> None:
    held, ends = HeldExtents(), dict.fromkeys(range(4), 0)
    for number, (extents, changed) in enumerate(files):
        entries = []
        for partition, size in sorted(dict(extents).items()):
            start, ends[partition] = ends[partition], ends[partition] + 10
            fixed = start, ends[partition], 1, 1, -1, 64, size, 0, 1, 24, 1, size, 0
            entries.append(Entry(*KEYS[partition], 0, *fixed))
        held.add(number, b"".join(ENTRY.pack(*one) for one in sorted(entries)))
        if held.held(KEYS[changed]) is not None:
            if data.draw(st.booleans()):
                held.drop_before(KEYS[changed], data.draw(st.integers(0, 90)))
            else:
                end = data.draw(st.integers(0, 9)) * 10
                held.cut(KEYS[changed], end)
                here = held.held(KEYS[changed])
                ends[changed] = end if here is None else here.end_offset
        _check_counts(held, number + 1)


def _check_counts(held: HeldExtents, files: int) -> None:
    total, wasteful = 0, []
    for number in range(files):
        live = [extent for _, extent in held.in_file(number) if extent is not None]
        assert (number in held.files) is bool(live)
        size = sum(one.entry.extent_bytes + one.entry.summary_bytes + ENTRY_BYTES for one in live)
        total += size
        count = held.files.extent_count(number)
        entries = [held.files.entry(number << 32 | at) for at in range(count)]
        whole = sum(one.extent_bytes + one.summary_bytes + ENTRY_BYTES for one in entries)
        if live and whole - size >= max(size, 300):
            wasteful.append(number)
    assert held.files.held_bytes == total
    assert held.files.wasteful(300, ()) == min(wasteful, default=None)
    assert held.files.wasteful(300, wasteful) is None


def test_files_that_cleaning_has_made_are_left_to_it() -> None:
    held = HeldExtents()
    entry = Entry(*LONG, 1, 0, 10, 1, 1, -1, 64, 900, 0, 1, 24, 1, 900, 0)
    later = entry._replace(first_offset=10, end_offset=20, extent_bytes=100, batch_bytes=100)
    for generation, wanted in ((1, None), (0, 0)):
        held = HeldExtents()
        entries = [one._replace(generation=generation) for one in (entry, later)]
        held.add(0, b"".join(ENTRY.pack(*one) for one in entries))
        assert held.drop_before(LONG, 10) == []
        assert held.files.wasteful(1, ()) == wanted
