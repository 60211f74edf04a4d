"""The second level: closed segments by partition, as a store behind the commit log."""

import errno
from pathlib import Path
from typing import Any

import pytest

from harness.log_world import DIRECTORY, World, open_log, read_all
from penstock.base.ids import LeaderEpoch, Offset, TopicPartition
from penstock.extents.check import check_extent_file
from penstock.extents.errors import CorruptExtentFile
from penstock.extents.reader import read_directory
from penstock.runtime.io.disk import FileDisk
from penstock.storage.commit_log.segments import ReadGuard
from penstock.storage.config import Retention
from penstock.storage.errors import CorruptFile, CorruptFrame, NewerFormat, ReadFailed
from penstock.storage.index.aborted import UNKNOWN
from penstock.storage.read.needs_disk import NeedsDisk
from penstock.storage.second_level.manifest import (
    encode_manifest,
    extent_path,
    manifest_path,
)
from penstock.storage.second_level.store import SecondLevel
from penstock.storage.stores.port import EpochEnd, Held
from penstock.storage.stores.rules import RetentionRules
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import crashes
from tests.storage.second_level import UNFINISHED, closed_segments, opened, split, take_over
from tests.storage.store_contract import KEEP, Filled, StoreContract, bodies_of, named
from tests.storage.test_second_level_manifest import MANIFEST
from tests.storage.test_stores import (
    KEY,
    OTHER,
    Filling,
    Pair,
    check_same_answers,
    fill,
    segments_of,
)


class Level:
    """A log with closed segments, and a second level that has each of them in a file."""

    def __init__(self, disk: FileDisk | FaultyDisk) -> None:
        self.disk = disk
        self.world = World()
        self.log = open_log(self.world, disk)
        self.filling: Filling = fill(self.world, self.log)
        self.guard = ReadGuard()
        self.second = opened(self.world, disk, self.guard)
        self.segments = closed_segments(self.log)
        assert len(self.segments) > 2

    def take_all(self, keys: tuple[TopicPartition, ...] = (KEY, OTHER)) -> None:
        for segment in self.segments:
            assert split(self.disk, self.second, [segment], keys)
            assert take_over(self.world, self.second) is None

    def reopened(self) -> SecondLevel:
        self.world = World()
        self.second = opened(self.world, self.disk)
        return self.second

    @property
    def held(self) -> Held:
        held = self.second.held(KEY)
        assert held is not None
        return held

    def files(self) -> list[str]:
        names = self.disk.list(f"{DIRECTORY}/second")
        return [name for name in names if name != "manifest"]

    def judge(self, settings: Retention, now_ms: int = 0) -> None:
        partitions = {key: self.log.open_partition(key) for key in (KEY, OTHER)}
        rules = RetentionRules(partitions, now_ms, lambda _: settings, lambda _: 0)
        self.second.judge(rules, lambda let_go: let_go() if let_go else None)
        self.world.run()


@pytest.fixture
def level() -> Level:
    made = Level(FaultyDisk())
    made.take_all()
    return made


class TestSecondLevel(StoreContract):
    @pytest.fixture
    def filled(self, tmp_path: Path) -> Filled:
        made = Level(FileDisk(tmp_path))
        made.take_all((KEY,))
        end = made.held.end_offset
        batches = [batch for batch in made.filling.batches if batch.end <= end]
        assert batches[-1].end == end
        return Filled(made.second, made.world, made.log.open_partition(KEY), batches, int)


class TestSecondLevelAfterAStart(StoreContract):
    @pytest.fixture
    def filled(self, tmp_path: Path) -> Filled:
        made = Level(FileDisk(tmp_path))
        made.take_all((KEY,))
        second = made.reopened()
        batches = [batch for batch in made.filling.batches if batch.end <= made.held.end_offset]
        return Filled(second, made.world, made.log.open_partition(KEY), batches, int)


def test_a_file_has_the_log_s_batches_byte_for_byte(level: Level) -> None:
    partition = level.log.open_partition(KEY)
    batches = dict(read_all(level.world, level.log, partition))
    filled = Filled(level.second, level.world, partition, level.filling.batches, int)
    offset = 0
    while offset < level.held.end_offset:
        chunk = filled.read(offset, 1, level.held.end_offset)
        assert batches[chunk.first_offset] == bytes(chunk.data[16:])
        offset = chunk.next_offset


def test_segments_that_are_split_together_or_one_by_one_hold_the_same() -> None:
    one_by_one, together = Level(FaultyDisk()), Level(FaultyDisk())
    one_by_one.take_all()
    assert split(together.disk, together.second, together.segments, (KEY, OTHER))
    assert take_over(together.world, together.second) is None
    assert together.held == one_by_one.held
    assert (together.second.file_count, one_by_one.second.file_count) == (1, 3)
    keys = KEY, OTHER
    sizes = [[made.second.size_bytes(key, 0, 1 << 60) for key in keys]
             for made in (one_by_one, together)]  # fmt: skip
    assert sizes[0] == sizes[1]


def test_files_that_two_members_write_are_equal_byte_for_byte() -> None:
    files = []
    for _ in range(2):
        made = Level(FaultyDisk())
        split(made.disk, made.second, made.segments, (KEY, OTHER))
        file = made.disk.open(UNFINISHED)
        files.append(bytes(file.read(0, file.size())))
    assert files[0] == files[1]


def test_what_is_held_already_or_not_wanted_is_not_copied(level: Level) -> None:
    assert split(level.disk, level.second, level.segments, (KEY, OTHER)) == []
    assert level.files() == [f"{number:020d}.extents" for number in range(3)]


def test_a_file_that_leaves_a_gap_is_refused_and_removed() -> None:
    made = Level(FaultyDisk())
    split(made.disk, made.second, made.segments[:1], (KEY,))
    assert take_over(made.world, made.second) is None
    before = made.held
    split(made.disk, made.second, made.segments[2:], (KEY,))
    error = take_over(made.world, made.second)
    assert isinstance(error, CorruptFile)
    assert "does not follow" in str(error)
    assert made.held == before
    assert made.files() == ["00000000000000000000.extents"]


def test_nothing_is_held_before_the_manifest_says_so() -> None:
    disk = FaultyDisk()
    made = Level(disk)
    split(disk, made.second, made.segments, (KEY,))

    def refuse(operation: str, path: str) -> None:
        del operation
        if "manifest" in path:
            raise OSError(errno.EIO, "no")

    disk.on_operation = refuse
    error = take_over(made.world, made.second)
    assert isinstance(error, ReadFailed)
    assert made.second.held(KEY) is None
    assert made.second.file_count == 0
    disk.on_operation = None
    assert made.files() == ["00000000000000000000.extents"], "it has its name, and is not held"
    split(disk, made.second, made.segments, (KEY,))
    assert take_over(made.world, made.second) is None
    assert made.held.end_offset > 0


def test_a_file_whose_manifest_may_be_there_keeps_its_number(monkeypatch: Any) -> None:
    """The manifest was replaced, and then the directory could not be synced."""
    disk = FaultyDisk()
    made = Level(disk)
    split(disk, made.second, made.segments[:1], (KEY,))
    with monkeypatch.context() as patched:
        replace = disk.replace

        def half_replaced(path: str, data: bytes) -> None:
            replace(path, data)
            raise OSError(errno.EIO, "no")

        patched.setattr(disk, "replace", half_replaced)
        assert isinstance(take_over(made.world, made.second), ReadFailed)
    assert made.second.held(KEY) is None
    split(disk, made.second, made.segments[:2], (KEY,))
    with monkeypatch.context() as patched:
        patched.setattr(disk, "replace", _killed)
        assert isinstance(take_over(made.world, made.second), ReadFailed)
    assert made.reopened().file_count == 1
    assert made.held.end_offset > 0


def _killed(path: str, data: bytes) -> None:
    raise OSError(errno.EIO, "nothing is written any more")


@pytest.mark.parametrize("behind", [20, 60, 110, 150])
def test_damage_of_the_log_is_found_and_not_copied(behind: int) -> None:
    # In a frame's header, in its batch's, and in the records.
    made = Level(FaultyDisk())
    frame = made.filling.positions[made.filling.batches[9].first]
    made.disk.open(made.segments[0].path).write(frame + behind, [b"\x07\x07"])
    with pytest.raises(CorruptFrame):
        split(made.disk, made.second, made.segments, (KEY, OTHER))
    assert made.files() == []


def test_a_segment_is_split_from_where_the_level_ends(level: Level) -> None:
    # The level was cut in the middle of a segment, which has all of it.
    batches = [one for one in level.filling.batches if one.end <= level.held.end_offset]
    end = batches[-20].first
    level.second.cut({KEY: end})
    (entry,) = split(level.disk, level.second, level.segments, (KEY,))
    assert (entry.first_offset, entry.end_offset) == (end, batches[-1].end)
    assert entry.batch_count == 20
    assert take_over(level.world, level.second) is None
    assert level.held == Held(Offset(0), Offset(batches[-1].end))


@pytest.mark.parametrize("name", ["00000000000000000003.extents", "00000000000000000009.x.tmp"])
def test_what_the_manifest_does_not_name_is_removed_at_a_start(level: Level, name: str) -> None:
    level.disk.replace(f"{DIRECTORY}/second/{name}", b"half")
    before = level.held
    level.reopened()
    assert level.held == before
    assert name not in level.files()


def test_a_start_refuses_a_file_that_is_gone_or_another_one(level: Level) -> None:
    path = extent_path(DIRECTORY, 1)
    level.disk.rename(extent_path(DIRECTORY, 2), path)
    with pytest.raises(CorruptFile, match="the manifest names"):
        level.reopened()
    level.disk.remove(path)
    with pytest.raises(FileNotFoundError):
        level.reopened()


def test_a_damaged_extent_fails_its_reads_with_the_name_of_the_file(level: Level) -> None:
    file = level.disk.open(extent_path(DIRECTORY, 0))
    file.write(500, [b"x"])
    partition = level.log.open_partition(KEY)
    found = level.second.read(partition, 0, 1000, 1 << 60)
    assert isinstance(found, NeedsDisk)
    answers: list[object] = []
    found.load(lambda chunk, error: answers.append(error or chunk))
    level.world.run()
    assert isinstance(answers[0], ReadFailed)
    assert "00000000000000000000.extents is damaged" in str(answers[0])
    with pytest.raises(CorruptExtentFile):
        check_extent_file("one", file.size(), file.read)


def test_a_file_goes_when_its_last_extent_does_and_reads_have_ended(level: Level) -> None:
    assert level.second.file_count == 3
    ticket = level.guard.enter()
    for key in (KEY, OTHER):
        level.log.open_partition(key).raise_log_start(level.held.end_offset)
    level.judge(KEEP)
    assert level.second.file_count == 0
    assert level.second.held(KEY) is None
    assert len(level.files()) == 3, "a read that began before may use them"
    level.guard.leave(ticket)
    level.world.run()
    assert level.files() == []
    assert level.reopened().held(KEY) is None


def test_a_file_stays_for_one_partition_and_what_went_does_not_come_back(level: Level) -> None:
    limit = level.held.end_offset
    level.log.open_partition(KEY).raise_log_start(limit)
    level.judge(KEEP)
    assert level.second.held(KEY) is None
    assert level.second.held(OTHER) is not None
    assert level.second.file_count == 3
    # A start reads the whole directories; the next pass drops the same extents again.
    second = level.reopened()
    level.judge(KEEP)
    assert second.held(KEY) is None
    assert second.held(OTHER) is not None


def test_partitions_of_deleted_topics_go(level: Level) -> None:
    rules = RetentionRules({}, 0, lambda _: KEEP, lambda _: 0)
    level.second.judge(rules, lambda let_go: let_go() if let_go else None)
    level.world.run()
    assert (level.second.held(KEY), level.second.held(OTHER)) == (None, None)
    assert level.files() == []


def test_numbers_of_files_are_never_used_again(level: Level) -> None:
    for key in (KEY, OTHER):
        level.log.open_partition(key).raise_log_start(level.held.end_offset)
    level.judge(KEEP)
    assert level.reopened().next_number == 3


def test_sizes_count_the_extents_that_overlap(level: Level) -> None:
    held = level.held
    whole = level.second.size_bytes(KEY, 0, held.end_offset)
    batches = [one for one in level.filling.batches if one.end <= held.end_offset]
    assert whole == sum(len(one.body) + 16 for one in batches)
    assert level.second.size_bytes(KEY, held.end_offset, 1 << 60) == 0
    assert level.second.size_bytes(KEY, 0, 0) == 0
    offsets = range(0, held.end_offset, 7)
    extents = {level.second.size_bytes(KEY, offset, offset + 1) for offset in offsets}
    assert sum(extents) == whole, "each extent has another size here"


@pytest.mark.parametrize("at", [0, 1, 30, 60, 100, 150, 199])
def test_a_cut_hides_what_lies_behind_it_from_every_question(level: Level, at: int) -> None:
    batches = [one for one in level.filling.batches if one.end <= level.held.end_offset]
    end = batches[at].first
    level.second.cut({KEY: end})
    left = [one for one in batches if one.end <= end]
    for is_started_anew in (False, True):
        second = level.reopened() if is_started_anew else level.second
        if not left:
            assert second.held(KEY) is None
            continue
        assert second.held(KEY) == Held(Offset(0), Offset(end))
        partition = level.log.open_partition(KEY)
        filled = Filled(second, level.world, partition, left, int)
        assert bodies_of(filled.read(left[-1].first, 1 << 20, 1 << 60).data) == named(left[-1:])
        newest = second.search(partition, 1 << 60).newest()
        assert newest is not None
        assert newest.max_timestamp == max(one.timestamp for one in left)
        epoch = filled.epoch_end(99)
        assert epoch == EpochEnd(LeaderEpoch(left[-1].leader_epoch), Offset(end))
        pieces = list(second.decided(partition, 0, 1 << 60))
        assert pieces[-1].end_offset == end
        assert pieces[-1].stable_end in {UNKNOWN, end}


def test_a_manifest_of_a_later_release_is_left_as_it_is(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr("penstock.storage.second_level.manifest.PLAIN_VERSION", 3)
        level.disk.replace(manifest_path(DIRECTORY), encode_manifest(MANIFEST))
    before = level.files()
    with pytest.raises(NewerFormat, match="version 3"):
        level.reopened()
    assert level.files() == before


def test_killed_at_any_step_a_file_is_taken_over_whole_or_not_at_all() -> None:
    state: dict[str, Any] = {}
    whole = Level(FaultyDisk())
    whole.take_all()
    ends = {whole.held}

    def operation() -> None:
        made = Level(FaultyDisk())
        split(made.disk, made.second, made.segments[:1], (KEY, OTHER))
        assert take_over(made.world, made.second) is None
        state.update(disk=made.disk, before=made.held)
        armed(made.disk, state)
        split(made.disk, made.second, made.segments[1:], (KEY, OTHER))
        assert take_over(made.world, made.second) is None

    found = []
    for _ in crashes(operation, state):
        state["disk"].power_loss()
        second = opened(World(), state["disk"])
        held = second.held(KEY)
        assert held in {state["before"], *ends}
        found.append(held)
        for number in range(second.file_count):
            file = state["disk"].open(extent_path(DIRECTORY, number))
            check_extent_file(str(number), file.size(), file.read)
    assert state["steps"] > 10
    assert state["before"] in found
    state["disk"].power_loss()
    assert {opened(World(), state["disk"]).held(KEY)} == ends


def armed(disk: FileDisk | FaultyDisk, state: dict[str, Any]) -> None:
    """Let the disk crash from here on."""
    assert isinstance(disk, FaultyDisk)
    disk.on_operation = state["hook"]


def first_extent_end(level: Level) -> int:
    """Return where the oldest extent of the partition ends."""
    file = level.disk.open(extent_path(DIRECTORY, 0))
    directory = read_directory("0", file.size(), file.read)
    return next(one.end_offset for one in directory.entries if one.topic_partition == KEY)


def test_killed_at_any_step_of_removal_nothing_held_is_missing() -> None:
    state: dict[str, Any] = {}

    def operation() -> None:
        made = Level(FaultyDisk())
        made.take_all()
        start = first_extent_end(made)
        made.log.open_partition(KEY).raise_log_start(Offset(start))
        made.log.open_partition(OTHER).raise_log_start(Offset(1 << 40))
        state.update(disk=made.disk, start=start, end=made.held.end_offset)
        armed(made.disk, state)
        made.judge(KEEP)

    for _ in crashes(operation, state):
        state["disk"].power_loss()
        held = opened(World(), state["disk"]).held(KEY)
        assert held is not None
        assert held.start_offset in {0, state["start"]}
        assert held.end_offset == state["end"]
    assert state["steps"] > 2


@pytest.fixture
def pair() -> Pair:
    """A log whose closed segments its second level has, and one that has everything itself."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    second = log.parts.second_level
    filling = fill(world, log)
    assert split(disk, second, closed_segments(log), (KEY,))
    assert take_over(world, second) is None
    whole_world = World()
    whole = open_log(whole_world, FaultyDisk())
    fill(whole_world, whole)
    return Pair(world, disk, second, log, (whole_world, whole), filling)


def test_every_answer_stays_when_the_commit_log_releases_its_segments(pair: Pair) -> None:
    before = segments_of(pair)
    check_same_answers(pair)
    pair.retain()
    assert segments_of(pair) == before[-1:], "all closed segments went"
    assert pair.partition.log_start_offset == 0
    check_same_answers(pair)


def test_every_answer_stays_after_a_start(pair: Pair) -> None:
    pair.retain()
    world = World()
    log = open_log(world, pair.disk)
    own = pair._replace(world=world, runs=log.parts.second_level, log=log)
    assert own.partition.commit_log_start_offset > own.partition.log_start_offset == 0
    check_same_answers(own)


def test_retention_by_age_takes_extents_and_their_file(pair: Pair) -> None:
    pair.retain()
    commit_log_start = pair.partition.commit_log_start_offset
    newest = max(batch.timestamp for batch in pair.filling.batches)
    pair.retain(Retention(-1, 0), newest)
    pair.retain(Retention(-1, 0), newest)
    assert pair.partition.log_start_offset >= commit_log_start
    assert pair.runs.held(KEY) is None
    assert pair.disk.list(f"{DIRECTORY}/second") == ["manifest"]
    check_same_answers(pair)
