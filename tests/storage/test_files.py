"""Every file of a log is kept for a reason, whatever has happened to the log."""

from random import Random

import pytest

from harness.log_world import DIRECTORY, SMALL, World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch
from penstock.storage.commit_log.files import Reason, explain_files
from penstock.storage.config import Retention
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import settle


def leaked(disk):
    return [path for path, why in explain_files(disk, DIRECTORY).items() if why is Reason.LEAKED]


def lived(seed):
    """A log that was written, retained, cut and opened anew, in an order that the seed draws."""
    draws, world, disk = Random(seed), World(), FaultyDisk()
    log, ends, topic = open_log(world, disk), [0], 1
    for _ in range(12):
        step = draws.choice(["write", "write", "retain", "cut", "kill", "close", "drop"])
        if step == "write":
            for number in range(120):
                append(log, log.open_partition(partition_number(number % 3, topic)), size=900)
                world.run()
            ends.append(log.end_position)
        elif step == "retain":
            log.apply_retention(0, lambda _: Retention(40_000, -1))
        elif step == "drop":
            for partition in list(log.partitions):
                log.drop_partition(partition)
            topic += 1
        elif step == "cut" and log.start_position < ends[-1] <= log.end_position:
            settle(world, log.truncate, ends.pop())
            log.begin_epoch(LeaderEpoch(log.leader_epoch + 1))
        elif step in {"kill", "close"}:
            if step == "close":
                log.close()
            disk.kill()
            world = World()
            log = open_log(world, disk)
        world.advance(2000)
    return world, disk, log


@pytest.mark.parametrize("seed", range(12))
def test_no_file_is_kept_that_nobody_needs(seed):
    world, disk, log = lived(seed)
    log.checkpoint()
    world.advance(10_000)
    assert leaked(disk) == []
    explained = explain_files(disk, DIRECTORY)
    assert set(explained) == {name for name in disk.names if name.startswith(f"{DIRECTORY}/")}
    disk.kill()
    open_log(World(), disk)
    assert leaked(disk) == []


def test_what_nobody_needs_is_named():
    world, disk, log = lived(0)
    log.checkpoint()
    world.advance(10_000)
    left = {
        f"{DIRECTORY}/index/{77 * SMALL.segment_bytes:020d}.idx",
        f"{DIRECTORY}/index/{0:020d}-00000.side",
        f"{DIRECTORY}/log/{1:020d}.log",
        f"{DIRECTORY}/stray.bin",
    }
    for path in left:
        disk.replace(path, b"left")
    assert sorted(leaked(disk)) == sorted(left)


def test_a_start_removes_the_index_of_a_segment_that_is_gone():
    world, disk, log = lived(0)
    log.checkpoint()
    world.advance(10_000)
    disk.kill()
    disk.replace(f"{DIRECTORY}/index/{0:020d}.idx", b"left by a crash")
    disk.remove(f"{DIRECTORY}/log/{0:020d}.log")
    log = open_log(World(), disk)
    assert log.start_position > 0
    assert leaked(disk) == []
