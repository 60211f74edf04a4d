"""The check that level 0 keeps its bound, on logs that are made up."""

from types import SimpleNamespace
from typing import Any, cast

from harness.log_world import partition_number
from penstock.base.ids import Position
from penstock.storage.commit_log.pins import Pin, SegmentPins
from penstock.storage.commit_log.segments import segment_path
from penstock.storage.second_level.planning import SEGMENTS_MAX
from simulator.checks.bounded_level0 import BoundedLevel0

SEGMENT = 100
DIRECTORY = "set-1"


class Log:
    """A log of closed segments, of which files are made when the test says so."""

    def __init__(self, segments: int, *, level0_bytes: int = 0) -> None:
        self.check = BoundedLevel0()
        self.kept = [number * SEGMENT for number in range(segments)]
        self.passes = 0
        self.is_compacted = False
        self.failing: set[int] = set()
        self.files = 1
        self.names = {segment_path(DIRECTORY, Position(base)) for base in self.kept}
        end = segments * SEGMENT + 50
        self.log = SimpleNamespace(
            directory=DIRECTORY,
            config=SimpleNamespace(level0_bytes=level0_bytes),
            is_busy=False,
            is_fenced=False,
            end_position=end,
            splitting=SimpleNamespace(_planned_before=1),
            parts=SimpleNamespace(
                writer=SimpleNamespace(flushed_position=end),
                second_level=SimpleNamespace(next_number=1),
            ),
        )
        self.member = SimpleNamespace(log=self.log, confirm_position=end, replica_set_id=1)

    def look(self) -> str:
        """End a retention pass that began just now, and look."""
        self.passes += 1
        pins = [
            SegmentPins(base, SEGMENT, Pin.PARTITIONS, 1, (partition_number(0),))
            for base in self.kept
        ]
        self.log.pins = cast("Any", SimpleNamespace(number=self.passes, segments=tuple(pins)))
        self.log.splitting._planned_before = self.files
        settings = SimpleNamespace(is_compacted=self.is_compacted)
        topics = {partition_number(0).topic_id: SimpleNamespace(settings=settings)}
        splits = SimpleNamespace(failing=self.failing)
        node = SimpleNamespace(
            image=SimpleNamespace(topics_by_id=topics), housekeeping=SimpleNamespace(splits=splits)
        )
        server = SimpleNamespace(name="n1", disk=SimpleNamespace(names=self.names), node=node)
        return self.check.look(cast("Any", server), cast("Any", self.member))

    def make_file(self) -> None:
        """Make it, one of a partition that was cleaned, and one that was shrunk."""
        self.files += 3
        self.log.parts.second_level.next_number = self.files


def test_a_segment_that_stays_though_a_file_was_made_of_it_is_found() -> None:
    log = Log(3)
    assert [log.look() for _ in range(5)] == [""] * 5, "no file yet: the housekeeper is slow"
    log.make_file()
    assert "keeps segment 0" in log.look()


def test_a_log_whose_job_has_failed_has_time_until_it_was_tried_again() -> None:
    log = Log(3)
    log.failing.add(1)
    for _ in range(3):
        assert log.look() == ""
        log.make_file()
    assert log.look() == ""
    log.failing.clear()
    assert log.look() == ""
    log.make_file()
    assert "keeps segment 0" in log.look()


def test_what_only_a_compacted_partition_keeps_is_not_judged() -> None:
    log = Log(3)
    log.is_compacted = True
    for _ in range(3):
        assert log.look() == ""
        log.make_file()


def test_a_segment_that_was_released_is_not() -> None:
    log = Log(3)
    log.look()
    log.look()
    log.kept = []
    log.make_file()
    assert log.look() == ""


def test_what_is_within_level_0_is_kept() -> None:
    log = Log(3, level0_bytes=2 * SEGMENT + 50)
    log.look()
    log.look()
    log.make_file()
    assert "keeps segment 0" in log.look()
    log.kept.remove(0)
    assert log.look() == ""


def test_what_is_not_confirmed_is_kept() -> None:
    log = Log(3)
    log.member.confirm_position = SEGMENT - 1
    log.look()
    log.make_file()
    assert [log.look(), log.look()] == ["", ""]


def test_later_segments_may_wait_for_later_files() -> None:
    log = Log(SEGMENTS_MAX + 1)
    log.look()
    log.look()
    log.kept = [SEGMENTS_MAX * SEGMENT]
    log.make_file()
    assert log.look() == ""
    log.make_file()
    assert f"keeps segment {SEGMENTS_MAX * SEGMENT}" in log.look()


def test_a_log_that_was_opened_anew_begins_again() -> None:
    log = Log(3)
    log.look()
    log.look()
    log.make_file()
    log.log.splitting = SimpleNamespace(_planned_before=0)
    assert [log.look(), log.look()] == ["", ""]
    log.make_file()
    assert "keeps segment 0" in log.look()
