"""Repairs of extent files in tests: a damaged log, and another member's log that is asked."""

from typing import Any

from harness.log_world import DIRECTORY, World, read_chunk
from penstock.base.ids import Position
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.recover.scrub import FROM_START, Scrubbed
from penstock.storage.second_level.damage import Repair
from penstock.storage.second_level.rebuild import Missing
from tests.storage.second_level import IDENTITY

NEW = f"{DIRECTORY}/second/new.tmp"


def scrub_all(world: World, log: SetLog, max_bytes: int = 10_000) -> list[Scrubbed]:
    """Scrub a whole log, slice by slice; raises what a slice answers."""
    slices: list[Scrubbed] = []
    position = FROM_START
    while not slices or position != FROM_START:
        slices.append(scrub_one(world, log, position, max_bytes))
        position = slices[-1].next_position
    return slices


def scrub_one(world: World, log: SetLog, position: int, max_bytes: int) -> Scrubbed:
    answers: list[Any] = []
    log.scrub(Position(position), max_bytes, lambda found, error: answers.append(error or found))
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Scrubbed)
    return answer


def begin(log: SetLog, number: int) -> Repair:
    return log.splitting.damage.repair(number, NEW, IDENTITY)


def go_on(world: World, repair: Repair, batches: memoryview | None) -> Missing | bool:
    answers: list[Any] = []
    repair.go_on(batches, lambda step, error: answers.append(step if error is None else error))
    world.run()
    (answer,) = answers
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, Missing | bool)
    return answer


def batches_of(peer: tuple[World, SetLog], missing: Missing, max_bytes: int) -> memoryview:
    world, log = peer
    partition = log.partitions[missing.topic_partition]
    return read_chunk(world, log, partition, missing.start_offset, max_bytes).data


def write_anew(
    member: tuple[World, SetLog],
    peer: tuple[World, SetLog],
    number: int,
    *,
    max_bytes: int = 3_000,
) -> list[Missing]:
    """Write a file anew with what a peer has; return what was missing."""
    world, log = member
    repair = begin(log, number)
    asked: list[Missing] = []
    batches: memoryview | None = None
    while True:
        step = go_on(world, repair, batches)
        batches = None
        if isinstance(step, Missing):
            asked.append(step)
            batches = batches_of(peer, step, max_bytes)
        elif not step:
            return asked


def put(member: tuple[World, SetLog], number: int) -> object:
    """Put the file that was written anew in its place; returns the error, or None."""
    world, log = member
    answers: list[object] = []
    log.splitting.put_instead(number, NEW, answers.append)
    world.run()
    (error,) = answers
    return error
