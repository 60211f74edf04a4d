"""A clean close leaves what a power cut can not take back."""

from random import Random

import pytest

from penstock.storage.config import FlushPolicy, LogConfig
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.world import World, append, open_log, partition_number, read_all

BATCHES = 8


@pytest.mark.parametrize("policy", list(FlushPolicy))
@pytest.mark.parametrize("seed", range(6))
def test_everything_appended_before_a_clean_close_outlives_a_power_cut(policy, seed):
    # Nothing runs between the appends and the close: no sync of the log's own was under way.
    config = LogConfig(
        segment_bytes=65_536,
        staging_bytes=32_768,
        large_batch_bytes=16_384,
        reserve_bytes=0,
        flush_policy=policy,
    )
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    world.run()
    for number in range(BATCHES):
        append(log, partition, size=1000, fill=number)
    log.close()
    disk.power_loss(Random(seed))
    world = World()
    again = open_log(world, disk, config)
    found = again.open_partition(partition_number(0))
    assert found.log_end_offset == BATCHES
    assert len(read_all(world, again, found)) == BATCHES
