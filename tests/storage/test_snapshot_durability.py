"""A power cut at any moment of a checkpoint: the snapshot never speaks of bytes that are gone."""

from random import Random

import pytest

from harness.log_world import World, append, open_log, partition_number, read_all
from penstock.storage.config import LogConfig
from tests.storage.faulty_disk import FaultyDisk

CONFIG = LogConfig(
    segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30, checkpoint_interval_ms=0,
    reserve_bytes=0,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_a_snapshot_is_written_only_when_its_bytes_are_durable(seed):
    # The disk's threads end their work in any order: a sync may be slower than a snapshot.
    random = Random(seed)
    world, disk = World(random), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    world.run()
    for number in range(6):
        append(log, partition, size=300, fill=number)
    log.checkpoint()
    for _ in range(random.randrange(6)):
        world.turn()
        if world.work:
            world.work_one()
    durable = log.durable_position
    disk.power_loss(random)
    world = World()
    again = open_log(world, disk, CONFIG)
    assert again.end_position >= durable
    found = again.open_partition(partition_number(0))
    assert len(read_all(world, again, found)) == found.log_end_offset
