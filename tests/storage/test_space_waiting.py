"""A log on a full disk waits, tries again, and writes what waited; SpaceWaiting in the source."""

import errno

import pytest

from harness.log_world import SMALL, World, append, open_log, partition_number
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.filling import fill


@pytest.fixture
def world():
    return World()


@pytest.fixture
def disk():
    return FaultyDisk()


def test_a_disk_that_stays_full_is_asked_again_until_there_is_room(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition)
    for _ in range(3):
        world.advance(SMALL.space_check_ms)
        assert log.is_full
    disk.capacity = 1 << 40
    world.advance(SMALL.space_check_ms)
    assert not log.is_full
    append(log, partition, size=1000)


def test_a_log_is_full_as_long_as_its_staged_bytes_find_no_space(world, disk):
    log = open_log(world, disk)
    world.run()
    partition = log.open_partition(partition_number(0))
    rooms = []
    log.writer.on_room = lambda: rooms.append(log.written_position)
    before = log.written_position
    disk.fail("write", ".log", errno.ENOSPC, times=4)
    append(log, partition, size=200)
    world.turn()
    for _ in range(3):
        world.advance(SMALL.space_check_ms)
        assert log.is_full
        assert log.written_position == before
    assert rooms == []
    world.advance(SMALL.space_check_ms)
    assert not log.is_full
    assert log.flushed_position == log.end_position > before
    assert rooms


def timers(world):
    return [handle for _, _, handle in world.later if handle.callback is not None]


def test_a_full_log_that_is_fenced_asks_for_no_more_space(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    fill(world, log, log.open_partition(partition_number(0)))
    assert timers(world)
    log.writer.fence("the test wants it")
    disk.capacity = 1 << 40
    used = disk.used
    world.advance(3 * SMALL.space_check_ms)
    assert disk.used == used
    assert timers(world) == []


def test_a_fenced_log_whose_next_file_finds_no_space_does_not_wait_for_it(world, disk):
    log = open_log(world, disk)
    disk.fail("allocate", "", errno.ENOSPC, times=None)
    log.writer.fence("the test wants it")
    world.run()
    assert timers(world) == []


def test_a_full_log_that_is_about_to_be_opened_anew_asks_for_no_more_space(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    fill(world, log, log.open_partition(partition_number(0)))
    log.writer.halt()
    assert timers(world) == []


def test_a_full_log_that_is_closed_leaves_nothing_behind(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    fill(world, log, log.open_partition(partition_number(0)))
    log.close()
    world.run()
    assert timers(world) == []


def test_what_was_appended_while_a_file_was_allocated_is_written_once_it_is_there(world, disk):
    log = open_log(world, disk)
    world.run()
    partition = log.open_partition(partition_number(0))
    held = []
    while log.end_position < 2 * SMALL.segment_bytes + 1_000:
        append(log, partition, size=1000)
        held += run_but_for_allocations(world)
    assert log.written_position < log.end_position
    world.work += held
    world.work_one()
    world.turn()
    assert log.written_position == log.end_position


def run_but_for_allocations(world):
    """Run until only files are to be allocated, and return that work."""
    held = []
    while world.soon or world.work:
        world.turn()
        held += [one for one in world.work if "prepare_next" in one[0].__qualname__]
        world.work = [one for one in world.work if one not in held]
        if world.work:
            world.work_one()
    return held
