"""Who is cleaned when: the dirtiest first, splits between, failures told once and tried again."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.log_world import DIRECTORY, SMALL, World, open_log
from penstock.base.ids import ReplicaSetId, TopicPartition
from penstock.broker.sets import cleanings
from penstock.broker.sets.cleanings import Cleanings
from penstock.broker.sets.splits import Splits
from penstock.compaction.choose import FIRST_WAIT_MS
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Answer, CleanJob, Failed, Job, ShrinkJob, SplitJob
from penstock.housekeeper.metered import MeteredDisk
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.storage.config import LogConfig, Retention
from penstock.storage.second_level import planning
from penstock.storage.second_level.cleaning import NOTHING_CLEANED
from penstock.storage.second_level.cleaning_plan import CleaningPlan, CleaningSettings
from penstock.storage.second_level.planning import SplitPlan
from penstock.storage.second_level.shrinking import ShrinkPlan
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.test_stores import KEY, OTHER

BOUNDED = replace(SMALL, level0_bytes=1 << 30)
SET = ReplicaSetId(1)
FOR_EVER = Retention(-1, -1)
COMPACTED = Retention(-1, -1, is_compacted=True)
SETTINGS = CleaningSettings(0.5, 1_000, 0, (1 << 63) - 1, FOR_EVER)


class Member:
    """What Cleanings knows of a member: its set and its log."""

    def __init__(self, world: World, config: LogConfig) -> None:
        self.replica_set_id = SET
        self.disk = FaultyDisk()
        self.log = open_log(world, self.disk, config)


class Node:
    """One member, and a housekeeper that answers when the test says so."""

    def __init__(self, config: LogConfig = BOUNDED) -> None:
        self.world = World()
        self.member = Member(self.world, config)
        members: Any = {SET: self.member}
        self.settings: dict[TopicPartition, CleaningSettings] = {KEY: SETTINGS, OTHER: SETTINGS}
        self.close_ms = -1
        self.now_ms = 0
        self.asked: list[tuple[Job, Callable[[Answer], None]]] = []
        self.starts = 0
        self.cleanings = Cleanings(members, self, self.world, self, self.world.wall_ms)
        self.splits = Splits(
            members, self, self.world, self.retain, token="token", cleanings=self.cleanings
        )

    def settings_of(self, partition: TopicPartition) -> CleaningSettings | None:
        return self.settings.get(partition)

    def name_of(self, partition: TopicPartition) -> str:
        return f"topic=t partition={partition.partition}"

    def retain(self, member: Any) -> None:
        kept = dict.fromkeys(self.settings, COMPACTED._replace(close_ms=self.close_ms))
        member.log.apply_retention(self.now_ms, lambda key: kept.get(key, FOR_EVER))

    def split(
        self, set_id: ReplicaSetId, plan: SplitPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        wanted = tuple(plan.wanted.items())
        self.asked.append(
            (SplitJob("", "set-1", name, bytes(16), set_id, 0, 0, plan.bases, wanted), done)
        )

    def clean(
        self, set_id: ReplicaSetId, plan: CleaningPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        self.asked.append((CleanJob("", "set-1", name, bytes(16), set_id, 0, plan.order), done))

    def append(self, key: TopicPartition, count: int, keys: int = 3) -> None:
        log = self.member.log
        partition = log.open_partition(key)
        for number in range(count):
            name, value = b"%d" % (number % keys), bytes(900)
            batch = memoryview(bytearray(build_batch([Record(name, value, (), 1_000 + number)])))
            log.append(partition, batch, read_header(batch))
            self.world.run()

    def shrink(
        self, set_id: ReplicaSetId, plan: ShrinkPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        place = "", "set-1", name, bytes(16), set_id, 0
        self.asked.append((ShrinkJob(*place, plan.file_number, plan.batch_bytes, plan.kept), done))

    def look(self) -> None:
        self.splits.look()
        self.world.run()

    def retention(self) -> None:
        self.retain(self.member)
        self.world.run()

    def answer(self, answer: Answer | None = None) -> Job:
        job, done = self.asked[-1]
        done(answer or run_job(MeteredDisk(self.member.disk, lambda _: None), job))
        self.world.run()
        return job

    def work(self) -> list[str]:
        """Do jobs until there is none; return whom each was about."""
        told: list[str] = []
        for _ in range(50):
            count = len(self.asked)
            self.look()
            if len(self.asked) == count:
                return told
            job = self.answer()
            if isinstance(job, SplitJob):
                told.append("split")
            elif isinstance(job, ShrinkJob):
                told.append("shrink")
            else:
                told.append(f"clean {job.order.topic_partition.partition}")
        raise AssertionError(told)

    def files(self) -> list[str]:
        return [name for name in self.member.disk.list(f"{DIRECTORY}/second") if name != "manifest"]

    def last_job(self) -> CleanJob:
        job, _ = self.asked[-1]
        assert isinstance(job, CleanJob)
        return job


@pytest.fixture
def node() -> Node:
    made = Node()
    made.append(KEY, 150)
    made.append(OTHER, 80, keys=60)
    made.append(KEY, 100)
    made.retention()
    return made


def test_closed_files_of_compacted_partitions_are_moved_and_then_the_dirtiest_is_cleaned(
    node: Node,
) -> None:
    told = node.work()
    assert told[0] == "split"
    # Half of the shared file is replaced by the first pass: it is shrunk before the second one.
    assert sorted(one for one in told if one != "split") == ["clean 0", "clean 1", "shrink"]
    stats = node.cleanings.stats
    assert stats.passes == 2
    assert stats.read_bytes > 2 * stats.kept_bytes
    assert node.cleanings.dirty_bytes == 0
    assert node.splits.stats.failures == stats.failures == 0
    assert node.work() == []


def test_a_quiet_partition_is_cleaned_when_its_records_are_older_than_the_largest_lag() -> None:
    """Nothing fills the shared file: without its early end they would never be cleaned."""
    node = Node()
    for key in (KEY, OTHER):
        node.settings[key] = SETTINGS._replace(dirty_ratio_min=1.0, lag_ms_max=5_000)
    node.close_ms = 5_000
    node.append(KEY, 12)
    node.now_ms = 6_000
    node.retention()
    assert node.work() == []
    node.now_ms = 6_001
    node.retention()
    node.retention()
    assert node.work() == ["split", "clean 0"]
    assert node.cleanings.stats.dropped_records == 9
    (extent,) = node.member.log.splitting.extents(KEY)
    assert extent.end_offset == node.member.log.open_partition(KEY).log_end_offset
    node.retention()
    assert node.member.log.numbers().file_count == 1, "the closed file has gone"


def test_what_is_not_compacted_stays_where_it_is(node: Node) -> None:
    del node.settings[OTHER]
    node.retention()
    node.work()
    assert node.member.log.splitting.extents(OTHER) == []
    assert node.member.log.splitting.extents(KEY) != []


def test_what_is_compacted_and_what_is_not_never_share_a_file() -> None:
    """Otherwise what cleaning has replaced would stay for the other one."""
    node = Node(replace(BOUNDED, level0_bytes=0))
    del node.settings[OTHER]
    node.append(KEY, 150)
    node.append(OTHER, 80)
    node.append(KEY, 100)
    node.retention()
    node.work()
    splitting = node.member.log.splitting
    numbers = [{one.file_number for one in splitting.extents(key)} for key in (KEY, OTHER)]
    assert all(numbers)
    assert not numbers[0] & numbers[1]
    assert splitting.moved_bytes(node.member.log.open_partition(KEY)) < 150 * 900
    assert len(node.files()) == len(numbers[0] | numbers[1])


def test_a_partition_is_cleaned_again_when_enough_of_it_is_new(node: Node) -> None:
    node.work()
    passes = node.cleanings.stats.passes
    node.settings[KEY] = SETTINGS._replace(dirty_ratio_min=1.0)
    node.append(KEY, 150)
    node.retention()
    assert "clean 0" not in node.work()
    assert node.cleanings.dirty_bytes > 0
    assert node.cleanings.oldest_dirty_seconds > 0
    node.settings[KEY] = SETTINGS._replace(dirty_ratio_min=1.0, lag_ms_max=1)
    assert node.work() == ["clean 0"]
    assert node.cleanings.stats.passes == passes + 1
    assert node.cleanings.oldest_dirty_seconds == 0


def test_what_was_seen_before_a_pass_is_not_what_is_known_after_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round takes several looks, and a pass may end between two of them."""
    monkeypatch.setattr(cleanings, "PARTITIONS_PER_LOOK", 1)
    node.append(KEY, 12)
    node.append(OTHER, 12)
    node.retention()
    cleaned, dirty, answered = [], [], 0
    for _ in range(20):
        is_under_way = len(node.asked) > answered
        node.look()
        dirty.append(node.cleanings.dirty_bytes)
        if is_under_way:  # what it cleans may have been looked at meanwhile
            answered += 1
            job = node.answer()
            if isinstance(job, CleanJob):
                cleaned.append(job.order.topic_partition)
                dirty.append(node.cleanings.dirty_bytes)
    assert sorted(cleaned) == sorted([KEY, OTHER])
    assert dirty[-1] == 0
    falling = dirty[dirty.index(max(dirty)) :]
    assert falling == sorted(falling, reverse=True)


def test_a_failure_is_told_once_and_others_go_on(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.sets.cleanings")
    while not isinstance(node.asked[-1][0] if node.asked else None, CleanJob):
        node.look()
        if isinstance(node.asked[-1][0], SplitJob):
            node.answer()
    bad = node.last_job().order.topic_partition.partition
    node.answer(Failed("it is damaged"))
    assert f"clean {bad}" not in node.work()
    assert node.cleanings.failing_count == node.cleanings.stats.failures == 1
    assert f"topic=t partition={bad} can not be cleaned" in caplog.text
    assert "it is damaged" in caplog.text
    node.world.advance(FIRST_WAIT_MS)
    assert node.work() == [f"clean {bad}"]
    assert node.cleanings.failing_count == 0
    assert caplog.records[-1].getMessage() == f"topic=t partition={bad} is cleaned again"


def test_a_partition_of_which_nothing_can_be_cleaned_waits_for_more(node: Node) -> None:
    del node.settings[OTHER]
    node.retention()
    node.look()
    node.answer()
    node.look()
    assert node.last_job().order.topic_partition == KEY
    node.answer(NOTHING_CLEANED)
    count = len(node.asked)
    for _ in range(3):
        node.look()
    assert len(node.asked) == count
    node.append(KEY, 100)
    node.retention()
    assert "clean 0" in node.work()


def test_a_file_made_before_the_log_was_opened_anew_is_dropped(node: Node) -> None:
    node.look()
    node.answer()
    while not isinstance(node.asked[-1][0], CleanJob):
        node.look()
    job, done = node.asked[-1]
    made = run_job(MeteredDisk(node.member.disk, lambda _: None), job)
    before = node.files()
    node.member.log = open_log(node.world, node.member.disk, BOUNDED)
    done(made)
    node.world.run()
    assert node.cleanings.stats.passes == 0
    assert node.files() == [name for name in before if not name.endswith(".tmp")]


def test_each_pass_has_a_salt_and_a_name_of_its_own(node: Node) -> None:
    node.work()
    jobs = [job for job, _ in node.asked if isinstance(job, CleanJob)]
    assert len({job.order.salt for job in jobs}) == len({job.unfinished for job in jobs}) == 2


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose files are made of one segment each, with several to be made of one partition."""
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 1)
    made = Node()
    made.append(KEY, 300)
    made.retention()
    return made


def test_a_partition_is_cleaned_when_all_of_it_that_is_due_was_moved(moving: Node) -> None:
    told = moving.work()
    assert len(told) > 3
    assert told == ["split"] * (len(told) - 1) + ["clean 0"]
    assert moving.cleanings.dirty_bytes == 0


def test_with_many_dirty_bytes_on_the_node_cleaning_waits_for_no_more(
    moving: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanings, "DIRTY_BYTES_MAX", 1)
    assert moving.work()[:2] == ["split", "clean 0"]


def test_what_is_due_by_time_waits_for_nothing_that_is_to_be_moved(moving: Node) -> None:
    moving.settings[KEY] = SETTINGS._replace(lag_ms_max=1_000)
    moving.now_ms = 10_000
    assert moving.work()[:2] == ["split", "clean 0"]


def test_a_log_that_can_not_be_split_is_cleaned_as_far_as_it_was_moved(moving: Node) -> None:
    moving.look()
    moving.answer()
    moving.look()
    job = moving.answer(Failed("the disk is full"))
    assert isinstance(job, SplitJob)
    moving.look()
    assert moving.last_job().order.topic_partition == KEY


def test_a_partition_does_not_wait_for_what_is_to_be_moved_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 1)
    node = Node()
    node.append(KEY, 60)
    node.append(OTHER, 300, keys=60)
    node.retention()
    told = node.work()
    assert "split" in told[told.index("clean 0") :]
    assert told[-1] == "clean 1"
