"""When internal partitions move: by new reports, above the bound, and with patience."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import TopicId, TopicPartition
from penstock.broker.sets.pin_relief import PinRelief
from penstock.coordinator.rewrites import RewriteTracker
from penstock.storage.commit_log.pins import Movable, PinReport

ONE, TWO = (TopicPartition(TopicId(bytes(16)), n) for n in (0, 1))
BOUND = 1_000


class Around:
    """A log with reports, and rewrites that end when the test says."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.open: list[Any] = []
        self.passes = 0
        self.tracker = RewriteTracker(1 << 30)
        config = SimpleNamespace(rewrite_after_pinned_bytes=BOUND)
        base = SimpleNamespace(config=config, rewrites=self.tracker)
        self.runtime = SimpleNamespace(base=base)
        topic = SimpleNamespace(name="__internal")
        broker: Any = SimpleNamespace(coordinators={topic.name: self})
        self.relief = PinRelief(broker, self.apply)
        self.member: Any = _Member()
        self.hosted: Any = {
            key: SimpleNamespace(partition=key.partition, member=self.member, topic=topic)
            for key in (ONE, TWO)
        }

    def rewrite(self, hosted: Any, done: Any) -> bool:
        self.begun.append(hosted.partition)
        self.open.append(done)
        return True

    def apply(self, _: Any) -> None:
        self.passes += 1

    def report(self, size_bytes: int, oldest_base: int = 0, oldest_file: int = -1) -> None:
        number = self.member.log.pins.number + 1 if self.member.log.pins else 1
        movable = Movable(size_bytes, oldest_base, (ONE, TWO), oldest_file)
        self.member.log.pins = PinReport(number, (), {}, movable)

    def look(self) -> list[int]:
        self.begun = []
        self.relief.look(self.member, self.hosted)
        return self.begun

    def end(self) -> None:
        ended, self.open = self.open, []
        for done in ended:
            done(True)


class _Member:
    def __init__(self) -> None:
        self.replica_set_id = 1
        self.log = SimpleNamespace(pins=None)


@pytest.fixture
def around() -> Around:
    return Around()


def test_all_that_keep_a_file_move_together_and_retention_follows(around: Around) -> None:
    around.report(BOUND)
    assert around.look() == [0, 1]
    assert around.passes == 0
    around.end()
    assert around.passes == 1


def test_below_the_bound_nothing_moves(around: Around) -> None:
    around.report(BOUND - 1)
    assert around.look() == []


def test_what_lives_may_cost_half_of_what_is_set_free(around: Around) -> None:
    around.tracker.rewritten(0, 400)
    around.tracker.appended(1, 200)
    around.report(1_199)
    assert around.look() == []
    around.report(1_200)
    assert around.look() == [0, 1]


def test_a_report_is_acted_on_once(around: Around) -> None:
    around.report(BOUND)
    assert around.look() == [0, 1]
    assert around.look() == []
    around.end()
    assert around.look() == []


def test_while_rewrites_go_on_new_reports_wait(around: Around) -> None:
    around.report(BOUND)
    around.look()
    around.report(2 * BOUND, 10)
    assert around.look() == []
    around.end()
    assert around.look() == [0, 1]


def test_what_sets_nothing_free_is_tried_again_after_ever_more_reports(around: Around) -> None:
    tried = []
    for number in range(40):
        around.report(BOUND)
        if around.look():
            tried.append(number)
            around.end()
    assert tried == [0, 1, 3, 7, 15, 31]


def test_where_something_became_free_there_is_no_wait(around: Around) -> None:
    for number in range(5):
        around.report(BOUND, number)
        assert around.look() == [0, 1]
        around.end()
    for number in range(5):
        around.report(BOUND, 5, number)
        assert around.look() == [0, 1]
        around.end()
    around.report(BOUND, 5, 4)
    around.look()
    around.report(BOUND, 5, 4)
    assert around.look() == []
