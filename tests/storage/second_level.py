"""A second level over the closed segments of a log of tests."""

from harness.log_world import DIRECTORY, World
from penstock.base.ids import Position, TopicPartition
from penstock.base.ports import Disk
from penstock.extents.layout import Entry
from penstock.storage.commit_log.segments import ReadGuard
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.index.lookup import ClosedSegment
from penstock.storage.second_level.split import split_segments
from penstock.storage.second_level.store import SecondLevel

IDENTITY = (bytes(range(16)), 1)
UNFINISHED = f"{DIRECTORY}/second/made.tmp"


def opened(world: World, disk: Disk, guard: ReadGuard | None = None) -> SecondLevel:
    second = SecondLevel(
        disk,
        DIRECTORY,
        offload=world,
        scheduler=world,
        guard=guard or ReadGuard(),
        oldest_position=lambda: Position(0),
    )
    second.load()
    return second


def closed_segments(log: SetLog) -> list[ClosedSegment]:
    """Return the closed segments with an index, oldest first."""
    return list(log.parts.reader.closed())


def split(
    disk: Disk,
    second: SecondLevel,
    segments: list[ClosedSegment],
    keys: tuple[TopicPartition, ...],
) -> list[Entry]:
    """Write a file: what the segments have of these partitions and the level has not."""

    def wanted(key: TopicPartition) -> int | None:
        held = second.held(key)
        start = 0 if held is None else held.end_offset
        return start if key in keys else None

    return split_segments(
        disk, DIRECTORY, segments, wanted, unfinished=UNFINISHED, identity=IDENTITY
    )


def take_over(world: World, second: SecondLevel, log_start: int = 0) -> object:
    """Take the written file over; returns the error, or None."""
    answers: list[object] = []
    second.take_over(UNFINISHED, lambda _: log_start, answers.append)
    world.run()
    (error,) = answers
    return error
