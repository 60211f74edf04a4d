"""Which log's files are shrunk when: in turn with splits, failures told once and tried again."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.log_world import DIRECTORY, SMALL, World, append, open_log, partition_number
from penstock.base.ids import Position, ReplicaSetId
from penstock.broker.sets.failing import RETRY_MS, RETRY_MS_MAX
from penstock.broker.sets.splits import Splits
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Answer, Failed, Job, ShrinkJob, SplitJob
from penstock.housekeeper.metered import MeteredDisk
from penstock.storage.config import Retention
from penstock.storage.errors import LogFenced
from penstock.storage.second_level.planning import SplitPlan
from penstock.storage.second_level.shrinking import ShrinkPlan
from tests.storage.faulty_disk import FaultyDisk

LONG, SHORT = partition_number(0), partition_number(1)
KEEP = Retention(-1, -1)
BOUNDED = replace(SMALL, level0_bytes=0)


class Member:
    """A log with short-lived records, and a little that is kept for long."""

    def __init__(self, world: World, number: int) -> None:
        self.replica_set_id = ReplicaSetId(number)
        self.disk = FaultyDisk()
        self.log = open_log(world, self.disk, BOUNDED)
        self.world = world

    def append(self, turns: int = 40) -> None:
        for _ in range(turns):
            for key, size in ((SHORT, 2_000), (LONG, 200)):
                append(self.log, self.log.open_partition(key), size=size)
            self.world.run()
        self.retain()

    def drop_short(self) -> None:
        partition = self.log.open_partition(SHORT)
        self.log.delete_records(partition, partition.log_end_offset)
        self.world.run()
        self.retain()

    def retain(self) -> None:
        self.log.apply_retention(0, lambda _: KEEP)
        self.world.run()

    def names(self) -> list[str]:
        return self.disk.list(f"{DIRECTORY}/second")


class Node:
    """Members whose closed segments were split, and a housekeeper that answers when it is told."""

    def __init__(self, count: int = 1) -> None:
        self.world = World()
        self.members = {ReplicaSetId(one): Member(self.world, one) for one in range(1, count + 1)}
        self.starts = 0
        self.asked: list[tuple[int, Job, Callable[[Answer], None]]] = []
        members: Any = self.members
        self.splits = Splits(members, self, self.world, self.retain, token="token")
        for member in self.members.values():
            member.append()
        self.work()
        self.asked.clear()

    def retain(self, member: Any) -> None:
        member.retain()

    @property
    def first(self) -> Member:
        return self.members[ReplicaSetId(1)]

    def split(
        self, set_id: ReplicaSetId, plan: SplitPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        wanted = tuple(plan.wanted.items())
        job = SplitJob("", DIRECTORY, name, bytes(16), set_id, 0, 0, plan.bases, wanted)
        self.asked.append((set_id, job, done))

    def shrink(
        self, set_id: ReplicaSetId, plan: ShrinkPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        place = "", DIRECTORY, name, bytes(16), set_id, 0
        job = ShrinkJob(*place, plan.file_number, plan.batch_bytes, plan.kept)
        self.asked.append((set_id, job, done))

    def look(self) -> None:
        self.splits.look()
        self.world.run()

    def make(self) -> Answer:
        set_id, job, _ = self.asked[-1]
        disk = self.members[ReplicaSetId(set_id)].disk
        return run_job(MeteredDisk(disk, lambda _: None), job)

    def answer(self, answer: Answer | None = None) -> None:
        self.asked[-1][2](answer or self.make())
        self.world.run()

    def work(self) -> list[str]:
        """Do jobs until two looks bring none; return the kind of each."""
        told: list[str] = []
        for _ in range(100):
            count = len(self.asked)
            self.look()
            self.look()
            if len(self.asked) == count:
                return told
            told.append("split" if isinstance(self.asked[-1][1], SplitJob) else "shrink")
            self.answer()
        raise AssertionError(told)

    @property
    def stats(self) -> Any:
        return self.splits.shrinkings.stats


def test_files_of_which_little_is_held_are_shrunk_and_what_that_freed_is_counted() -> None:
    node = Node()
    before = node.first.log.splitting.file_bytes
    node.first.drop_short()
    assert set(node.work()) == {"shrink"}
    after = node.first.log.splitting.file_bytes
    assert after < before // 5
    assert node.stats.files == len(node.asked)
    assert node.stats.freed_bytes == before - after
    assert 0 < node.stats.copied_bytes < after
    assert node.splits.failing_count == node.stats.failures == 0


def test_logs_take_turns_and_so_do_splits_and_shrinkings() -> None:
    node = Node(2)
    for _ in range(2):
        for member in node.members.values():
            member.append()
        node.work()
    for member in node.members.values():
        member.drop_short()
        member.append(80)
    node.asked.clear()
    kinds = node.work()
    assert kinds.count("split") >= 2
    turns = [(kind, set_id) for kind, (set_id, *_) in zip(kinds, node.asked, strict=True)]
    assert {kind for kind, _ in turns[:2]} == {"split", "shrink"}
    shrunk = [set_id for kind, set_id in turns if kind == "shrink"]
    assert shrunk[:4] == [1, 2, 1, 2]


def test_a_failure_is_told_once_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.sets.shrinkings")
    node = Node()
    node.first.drop_short()
    for number in range(1, 4):
        node.look()
        assert len(node.asked) == number
        node.answer(Failed("the disk is full"))
        node.look()
        assert len(node.asked) == number, "it waits"
        node.world.advance(RETRY_MS << (number - 1))
    assert node.stats.failures == 3
    assert node.splits.failing_count == 1
    assert node.first.log.splitting.damage.files == {}
    (record,) = caplog.records
    assert "set=1 file=0 can not be shrunk" in record.getMessage()
    assert "the disk is full" in record.getMessage()
    node.world.advance(RETRY_MS_MAX)
    assert node.work()
    assert node.splits.failing_count == 0
    assert caplog.records[-1].getMessage() == "set=1: extent files are shrunk again"


def test_a_file_that_is_not_taken_over_is_a_failure_and_goes() -> None:
    node = Node()
    node.first.drop_short()
    names = node.first.names()
    node.look()
    answer = node.make()
    node.first.disk.open(node.asked[-1][1].unfinished).truncate(100)
    node.answer(answer)
    assert node.splits.failing_count == 1
    assert node.first.names() == names


def test_damage_that_was_found_is_known_and_other_files_go_on() -> None:
    node = Node()
    node.first.append()
    node.work()
    node.first.drop_short()
    node.look()
    _, job, _ = node.asked[-1]
    assert isinstance(job, ShrinkJob)
    node.answer(Failed("a block", damaged_file=job.file_number))
    assert node.first.log.splitting.damage.files == {job.file_number: "a block"}
    node.world.advance(RETRY_MS)
    node.look()
    _, other, _ = node.asked[-1]
    assert isinstance(other, ShrinkJob)
    assert other.file_number > job.file_number


def test_a_failure_of_a_file_that_has_gone_meanwhile_is_none() -> None:
    node = Node()
    node.first.drop_short()
    node.look()
    partition = node.first.log.open_partition(LONG)
    node.first.log.delete_records(partition, partition.log_end_offset)
    node.world.run()
    node.first.retain()
    node.answer()
    assert node.stats.failures == node.splits.failing_count == 0
    assert node.work() == []


@pytest.mark.parametrize("given", [None, Failed("a block", damaged_file=0)])
def test_the_file_of_a_log_that_was_opened_anew_is_dropped_without_a_failure(
    given: Answer | None,
) -> None:
    node = Node()
    node.first.drop_short()
    node.look()
    names = node.first.names()
    log = node.first.log
    log.is_sole_member = False
    answers: list[object] = []
    log.truncate(Position(log.parts.store.active.base), answers.append)
    node.world.run()
    assert answers == [None]
    node.answer(given)
    assert node.first.names() == names
    assert node.stats.failures == node.stats.files == 0


def test_a_busy_or_fenced_log_waits_and_one_that_left_is_forgotten() -> None:
    node = Node()
    node.first.drop_short()
    node.first.log.is_busy = True
    node.look()
    node.first.log.is_busy = False
    fenced, node.first.log.writer.fenced = node.first.log.writer.fenced, LogFenced("a sync failed")
    node.look()
    assert node.asked == []
    node.first.log.writer.fenced = fenced
    node.look()
    node.answer(Failed("no"))
    assert node.splits.failing_count == 1
    node.members.clear()
    node.look()
    assert node.splits.failing_count == 0
