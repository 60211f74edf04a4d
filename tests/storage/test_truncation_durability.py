"""What was truncated is gone for good, also where the log had been closed cleanly at that place."""

from random import Random

import pytest

from harness.log_world import (
    SMALL,
    World,
    append,
    make_batch,
    open_log,
    partition_number,
    read_all,
)
from penstock.record.batch import read_header
from penstock.storage.config import LogConfig, Retention
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import copy_of, crashes, open_member, settle

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


def test_a_retry_of_a_batch_that_was_cut_is_no_duplicate_where_older_segments_are_gone():
    # The window comes from the snapshot: the segments with the producer's kept batch are deleted.
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    rare, busy = (log.open_partition(partition_number(number)) for number in range(2))
    append(log, rare, records=2, producer=(5, 0, 0))
    for _ in range(500):
        append(log, busy, size=1000)
        world.run()
    log.apply_retention(0, lambda tp: Retention(200_000 if tp.partition == 1 else 0, -1))
    world.run()
    assert log.start_position > 0
    position = log.end_position
    append(log, rare, records=3, producer=(5, 0, 2))
    for _ in range(3):  # snapshots above the cut push out those below it
        append(log, busy, size=1000)
        log.checkpoint()
        world.run()
        world.advance(5000)
    settle(world, log.truncate, position)
    producers = log.open_partition(partition_number(0)).producers
    kept = producers.check(read_header(make_batch(records=2, producer=(5, 0, 0))))
    assert kept is not None
    assert kept.base_offset == 0
    assert producers.check(read_header(make_batch(records=3, producer=(5, 0, 2)))) is None


def test_what_only_the_snapshot_knew_survives_a_crash_at_any_step_of_a_rebuild():
    world, origin = World(), FaultyDisk()
    log = open_log(world, origin, SMALL)
    rare, busy = (log.open_partition(partition_number(number)) for number in range(2))
    append(log, rare, records=7)
    for _ in range(150):
        append(log, busy, size=1000)
        world.run()
    log.apply_retention(0, lambda tp: Retention(60_000 if tp.partition == 1 else 0, -1))
    world.run()
    assert log.start_position > 0
    position = log.end_position
    for _ in range(3):
        append(log, busy, size=1000)
        log.checkpoint()
        world.run()
        world.advance(5000)
    world.run()
    state = {}

    def truncate():
        disk = state["disk"] = copy_of(origin)
        world = World()
        log = open_member(world, disk)
        disk.on_operation = state["hook"]
        settle(world, log.truncate, position)

    for step in crashes(truncate, state):
        disk = state["disk"]
        disk.power_loss(Random(step))
        log = open_member(World(), disk)
        ends = [log.open_partition(partition_number(number)).log_end_offset for number in range(2)]
        assert ends in ([7, 150], [7, 153]), step
    assert state["steps"] > 10
