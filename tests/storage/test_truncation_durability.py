"""What was truncated is gone for good, also where the log had been closed cleanly at that place."""

from random import Random

import pytest

from penstock.storage.config import LogConfig
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import settle
from tests.storage.world import World, append, open_log, partition_number, read_all

CONFIG = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30, reserve_bytes=0)
KEPT = 3


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_no_power_cut_brings_back_what_was_truncated(seed, is_clean):
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    for number in range(KEPT):
        append(log, partition, size=300, fill=number)
    world.run()
    if is_clean:
        log.close()
        world = World()
        log = open_log(world, disk, CONFIG)
        partition = log.open_partition(partition_number(0))
    end = log.end_position
    for number in range(4):
        append(log, partition, size=300, fill=100 + number)
    world.run()
    settle(world, log.truncate, end)
    assert log.end_position == end
    disk.power_loss(Random(seed))
    world = World()
    again = open_log(world, disk, CONFIG)
    assert again.end_position == end
    found = again.open_partition(partition_number(0))
    assert len(read_all(world, again, found)) == KEPT
