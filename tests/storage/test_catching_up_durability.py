"""A slave that copies old frames: their claims prove nothing of its own disk."""

from random import Random

import pytest

from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch
from penstock.storage.config import LogConfig
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import check_equal, open_member, replicate, take_run

CONFIG = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30, reserve_bytes=0)


def catching_up(world: World) -> tuple[tuple, tuple]:
    """A master whose every record was synced, and a slave that writes many without a sync."""
    disks = FaultyDisk(), FaultyDisk()
    master, slave = open_log(world, disks[0], CONFIG), open_member(world, disks[1], CONFIG)
    partition = master.open_partition(partition_number(0))
    for number in range(120):
        append(master, partition, size=700, fill=number)
        world.run()
    rest = take_run(world, master, 0, 1 << 20)
    for _ in range(20):
        if any(name.endswith("catching-up") for name in disks[1].names):
            break
        rest = rest.after(slave.append_run(rest))
        world.run()
    assert slave.append_run(rest) > 20_000, "without the note it would stop at each claim"
    return (disks[0], master), (disks[1], slave)


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_while_catching_up_leaves_a_log_that_opens_and_goes_on(seed):
    world = World()
    (_, master), (disk, slave) = catching_up(world)
    durable = slave.flushed_position
    assert durable < slave.end_position
    disk.power_loss(Random(seed))
    again = open_member(World(), disk, CONFIG)
    assert durable <= again.end_position
    again = open_member(world, disk, CONFIG)
    replicate(world, master, again)
    assert again.end_position == master.end_position


def test_a_log_that_becomes_a_masters_amid_catching_up_is_noted_until_it_is_flushed():
    world = World()
    _, (disk, slave) = catching_up(world)
    end = slave.end_position
    assert slave.flushed_position < end
    slave.begin_epoch(2)
    while slave.flushed_position < end:
        assert any(name.endswith("catching-up") for name in disk.names)
        world.turn()
        world.work_one()
    world.run()
    assert not any(name.endswith("catching-up") for name in disk.names)


def test_a_log_that_becomes_a_masters_before_it_is_noted_is_not_noted_for_good():
    world = World()
    disk = FaultyDisk()
    master, slave = open_log(world, FaultyDisk(), CONFIG), open_member(world, disk, CONFIG)
    partition = master.open_partition(partition_number(0))
    for number in range(120):
        append(master, partition, size=700, fill=number)
        world.run()
    slave.append_run(take_run(world, master, 0, 1 << 20))
    assert slave.end_position < master.end_position, "the note is asked for, and not there yet"
    slave.begin_epoch(LeaderEpoch(2))
    was_noted = False
    while world.work:
        world.work_one()
        was_noted |= any(name.endswith("catching-up") for name in disk.names)
        world.turn()
    assert was_noted
    assert not any(name.endswith("catching-up") for name in disk.names)


def test_what_was_caught_up_is_equal():
    world = World()
    one, other = catching_up(world)
    world.run()
    replicate(world, one[1], other[1])
    check_equal(one, other)
