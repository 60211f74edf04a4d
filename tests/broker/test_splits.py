"""Who is split when: logs in turn, failures told once and tried again, void files dropped."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.log_world import SMALL, World, open_log
from penstock.base.ids import ReplicaSetId
from penstock.broker.sets.failing import RETRY_MS, RETRY_MS_MAX
from penstock.broker.sets.splits import Splits
from penstock.housekeeper.jobs import run_job
from penstock.housekeeper.messages import Answer, Failed, Made, SplitJob
from penstock.housekeeper.metered import MeteredDisk
from penstock.storage.config import Retention
from penstock.storage.errors import LogFenced
from penstock.storage.second_level import planning
from penstock.storage.second_level.planning import SplitPlan
from penstock.storage.second_level.shrinking import ShrinkPlan
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.test_stores import KEY, fill

BOUNDED = replace(SMALL, level0_bytes=0)


class Member:
    """What Splits knows of a member: its set and its log, which wants to be split."""

    def __init__(self, world: World, number: int) -> None:
        self.replica_set_id = ReplicaSetId(number)
        self.disk = FaultyDisk()
        self.log = open_log(world, self.disk, BOUNDED)
        fill(world, self.log)

    @property
    def closed(self) -> int:
        return len(list(self.log.parts.reader.closed()))

    def names(self) -> list[str]:
        return self.disk.list("set-1/second")


class Node:
    """Members, and a housekeeper that answers when the test says so."""

    def __init__(self, count: int = 2) -> None:
        self.world = World()
        self.members = {
            ReplicaSetId(number): Member(self.world, number) for number in range(1, count + 1)
        }
        self.starts = 0
        self.asked: list[tuple[int, SplitPlan, str, Callable[[Answer], None]]] = []
        members: Any = self.members
        self.splits = Splits(members, self, self.world, self.retain, token="token")
        for member in self.members.values():
            self.retain(member)
        self.world.run()

    def retain(self, member: Any) -> None:
        member.log.apply_retention(
            0, lambda key: Retention(-1, -1) if key == KEY else Retention(0, -1)
        )

    def split(
        self, set_id: ReplicaSetId, plan: SplitPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        self.asked.append((set_id, plan, name, done))

    def shrink(
        self, set_id: ReplicaSetId, plan: ShrinkPlan, name: str, done: Callable[[Answer], None]
    ) -> None:
        raise AssertionError("nothing is dropped here")

    def look(self) -> None:
        self.splits.look()
        self.world.run()

    def make(self) -> Answer:
        """Do the job that was asked for, for good."""
        set_id, plan, name, _ = self.asked[-1]
        wanted = tuple(plan.wanted.items())
        job = SplitJob("", "set-1", name, bytes(16), set_id, 0, 0, plan.bases, wanted)
        disk = self.members[ReplicaSetId(set_id)].disk
        return run_job(MeteredDisk(disk, lambda _: None), job)

    def answer(self, answer: Answer | None = None) -> None:
        self.asked[-1][3](answer or self.make())
        self.world.run()

    @property
    def turns(self) -> list[int]:
        return [set_id for set_id, *_ in self.asked]


def test_logs_take_turns_and_each_job_is_answered_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 1)
    node = Node()
    for _ in range(4):
        node.look()
        node.look()
        node.answer()
    assert node.turns == [1, 2, 1, 2]
    assert node.splits.stats.files == 4
    assert [member.names()[-1] for member in node.members.values()] == ["manifest"] * 2
    while True:
        count = len(node.asked)
        node.look()
        if len(node.asked) == count:
            break
        node.answer()
    assert [member.closed for member in node.members.values()] == [0, 0]
    assert node.splits.stats.failures == 0


def test_a_failure_is_told_once_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.sets.splits")
    node = Node()
    node.look()
    node.answer(Failed("the disk is full"))
    node.look()
    node.answer()
    assert node.turns == [1, 2]
    assert node.members[ReplicaSetId(2)].closed == 0
    for _ in range(2):
        node.world.advance(2 * RETRY_MS)
        node.look()
        node.answer(Failed("the disk is full"))
    assert node.turns == [1, 2, 1, 1]
    assert node.splits.stats.failures == 3
    assert node.splits.failing_count == 1
    assert len(caplog.records) == 1
    assert "set=1 can not be split" in caplog.text
    assert "the disk is full" in caplog.text
    node.world.advance(RETRY_MS_MAX)
    node.look()
    node.answer()
    assert node.splits.failing_count == 0
    assert caplog.records[-1].getMessage() == "set=1 is split again"


def test_the_wait_doubles_up_to_its_bound() -> None:
    node = Node(1)
    waits = []
    for _ in range(12):
        begun = node.world.now_ms
        count = len(node.asked)
        while len(node.asked) == count:
            node.look()
            node.world.advance(RETRY_MS // 2)
        waits.append(node.world.now_ms - begun)
        node.answer(Failed("no"))
    assert waits[1:4] == [RETRY_MS * 3 // 2, RETRY_MS * 5 // 2, RETRY_MS * 9 // 2]
    assert max(waits) == RETRY_MS_MAX + RETRY_MS // 2


def test_a_file_that_is_not_taken_over_is_a_failure_and_goes() -> None:
    node = Node(1)
    node.look()
    answer = node.make()
    (member,) = node.members.values()
    member.disk.open(node.asked[-1][2]).truncate(1000)
    node.answer(answer)
    assert node.splits.failing_count == 1
    assert member.names() == []
    assert member.closed > 0


def test_what_a_killed_housekeeper_leaves_is_removed() -> None:
    node = Node(1)
    node.look()
    node.make()
    (member,) = node.members.values()
    assert len(member.names()) == 1
    node.answer(Failed("the housekeeper ended: signal 9"))
    assert member.names() == []


def test_a_job_that_finds_nothing_of_what_is_needed_is_a_failure() -> None:
    # Otherwise it would be asked for again every second.
    node = Node(1)
    node.look()
    node.answer(Made(0, 0))
    assert node.splits.failing_count == 1


def test_damage_that_was_found_is_damage_of_the_log() -> None:
    node = Node(1)
    told: list[int] = []
    (member,) = node.members.values()
    member.log.on_damage = lambda position, _: told.append(position)
    node.look()
    node.answer(Failed("a frame", 100))
    assert told == [100]
    assert node.splits.failing_count == 1


def test_the_file_of_a_log_that_was_opened_anew_is_dropped_without_a_failure() -> None:
    node = Node(1)
    node.look()
    (member,) = node.members.values()
    member.log.is_sole_member = False
    answers: list[object] = []
    member.log.truncate(member.log.parts.store.active.base, answers.append)
    node.world.run()
    assert answers == [None]
    node.answer()
    assert member.names() == []
    assert node.splits.failing_count == 0
    member.log.is_sole_member = True
    node.retain(member)
    node.world.run()
    node.look()
    node.answer()
    assert member.closed == 0


def test_a_member_that_left_meanwhile_is_forgotten() -> None:
    node = Node(2)
    node.look()
    node.answer(Failed("no"))
    assert node.splits.failing_count == 1
    node.look()
    for set_id in list(node.members):
        del node.members[set_id]
    node.asked[-1][3](Failed("no"))
    node.look()
    assert node.splits.failing_count == 0
    assert node.splits.stats.failures == 1


def test_a_busy_or_fenced_log_waits() -> None:
    node = Node(1)
    (member,) = node.members.values()
    member.log.is_busy = True
    node.look()
    member.log.is_busy = False
    member.log.writer.fenced = LogFenced("a sync failed")
    node.look()
    assert node.asked == []


def test_the_next_job_begins_soon_after_one_and_not_before_it_is_known() -> None:
    node = Node()
    node.splits.go_on()
    assert node.turns == [], "the first one is begun by a look"
    node.look()
    node.splits.go_on()
    assert node.turns == [1], "one at a time"
    node.asked[-1][3](node.make())
    node.splits.go_on()
    assert node.turns == [1], "its file is being taken over"
    node.world.run()
    node.splits.go_on()
    assert node.turns == [1, 2]
    node.answer()
    for _ in range(3):
        node.splits.go_on()
    assert node.turns == [1, 2], "there is nothing more to do"


def test_after_a_job_the_next_one_waits_for_what_retention_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "SEGMENTS_MAX", 1)
    node = Node(1)
    retain, asked = node.retain, list[Any]()
    node.look()
    monkeypatch.setattr(node.splits, "_apply_retention", asked.append)
    node.answer()
    node.splits.go_on()
    assert (len(asked), node.turns) == (1, [1])
    retain(node.members[ReplicaSetId(1)])
    node.world.run()
    node.splits.go_on()
    assert node.turns == [1, 1]
