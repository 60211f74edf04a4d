"""A small log takes little of the disk: its files begin small and grow with it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from harness.log_world import SMALL, World, append, open_log, partition_number, read_all
from penstock.storage.commit_log.segments import usual_capacity
from penstock.storage.errors import OutOfSpace, SegmentNotReady
from tests.storage.faulty_disk import FaultyDisk

KIB = 1024
GROWING = replace(SMALL, segment_bytes=1024 * KIB, first_segment_bytes=64 * KIB)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def disk():
    return FaultyDisk()


def sizes(disk):
    """Return (base, size) of every segment file in order."""
    names = sorted(name for name in disk.list("set-1/log") if name.endswith(".log"))
    return [(int(name[:20]), disk.open(f"set-1/log/{name}").size()) for name in names]


def fill(world, log, partition, total):
    for number in range(total // 1000):
        append(log, partition, size=1000, fill=number)
        world.run()


def test_an_empty_log_takes_two_small_files(world, disk):
    open_log(world, disk, GROWING)
    world.run()
    assert sizes(disk) == [(0, 64 * KIB), (64 * KIB, 64 * KIB)]


def test_files_grow_to_their_full_size_and_hold_everything(world, disk):
    log = open_log(world, disk, GROWING)
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 4_000_000)
    found = sizes(disk)
    kibs = [size // KIB for _, size in found]
    assert kibs[:5] == [64, 64, 128, 256, 512]
    assert set(kibs[5:]) == {1024}
    assert all(base + size == after for (base, size), (after, _) in pairwise(found))
    assert len(read_all(world, log, partition)) == 4000


def test_a_start_finds_files_of_all_sizes(world, disk):
    log = open_log(world, disk, GROWING)
    fill(world, log, log.open_partition(partition_number(0)), 900_000)
    world.run()
    again = open_log(world, disk, GROWING)
    world.run()
    partition = again.open_partition(partition_number(0))
    assert len(read_all(world, again, partition)) == 900
    assert all(size == usual_capacity(GROWING, base) for base, size in sizes(disk))


def test_a_batch_larger_than_the_next_file_gets_one_of_full_size(world, disk):
    log = open_log(world, disk, GROWING)
    world.run()
    partition = log.open_partition(partition_number(0))
    with pytest.raises(SegmentNotReady):  # as for any that comes before the disk is ready
        append(log, partition, size=700 * KIB)
    world.run()
    append(log, partition, size=700 * KIB)
    world.run()
    assert sizes(disk)[:2] == [(0, 64 * KIB), (64 * KIB, 1024 * KIB)]
    assert len(read_all(world, log, partition)) == 1


def test_a_disk_without_room_for_a_file_says_what_is_needed_and_what_there_is(world, disk):
    disk.capacity = 50_000
    with pytest.raises(OutOfSpace, match=r"takes 65536 bytes .* 50000 are available\): free"):
        open_log(world, disk, GROWING)
