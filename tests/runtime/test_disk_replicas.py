"""A master and a slave on the real disk: streaming, truncation, a copy of the base, a reset."""

import pytest

from harness.log_world import SMALL, World, append, open_log, partition_number, read_all
from penstock.runtime.io.disk import FileDisk
from tests.storage.replicas import (
    copy_base,
    export_of,
    open_member,
    replicate,
    settle,
    take_run,
)


@pytest.fixture
def pair(tmp_path):
    world = World()
    disks = []
    for name in ("master", "slave"):
        (tmp_path / name).mkdir()
        disks.append(FileDisk(tmp_path / name))
    master = open_log(world, disks[0])
    partition = master.open_partition(partition_number(0))
    for number in range(300):
        append(master, partition, size=1000, fill=number)
        world.run()
    return world, disks, master, open_member(world, disks[1])


def same_bytes(world, master, slave):
    position = max(master.start_position, slave.start_position)
    while True:
        limit = min(master.end_position, slave.end_position)
        runs = [take_run(world, log, position, 50_000, limit) for log in (master, slave)]
        assert bytes(runs[0].data) == bytes(runs[1].data)
        assert runs[0][:4] == runs[1][:4]
        if not runs[0].data:
            return
        position = runs[0].next_position


def all_of(world, log):
    return read_all(world, log, log.open_partition(partition_number(0)))


def test_a_slave_streams_is_cut_and_streams_again(pair):
    world, disks, master, slave = pair
    replicate(world, master, slave, max_bytes=30_000)
    assert slave.end_position == master.end_position
    same_bytes(world, master, slave)
    cut = take_run(world, slave, SMALL.segment_bytes, 20_000).next_position
    settle(world, slave.truncate, cut)
    assert slave.end_position == cut
    replicate(world, master, slave)
    same_bytes(world, master, slave)
    assert all_of(world, slave) == all_of(world, master)
    slave.note_confirmed(slave.end_position)
    slave.close()
    again = open_member(World(), disks[1])
    assert again.recovery.was_clean
    assert again.end_position == master.end_position


@pytest.mark.parametrize("newest_only", [False, True])
def test_a_slave_copies_a_base_over_an_older_log(pair, newest_only):
    world, disks, master, slave = pair
    replicate(world, master, slave, runs=2)
    master.checkpoint()
    world.run()
    export = export_of(world, master, newest_only=newest_only)
    copy_base(world, export, slave)
    export.release()
    replicate(world, master, slave)
    same_bytes(world, master, slave)
    own = slave.open_partition(partition_number(0))
    assert all_of(world, slave) == all_of(world, master)[own.log_start_offset :]
    again = open_member(World(), disks[1])
    assert again.end_position == master.end_position
    assert not again.recovery.damaged_files


def test_a_reset_log_begins_at_the_given_place(pair):
    world, disks, master, slave = pair
    replicate(world, master, slave)
    settle(world, slave.reset_to, SMALL.segment_bytes, 2 * SMALL.segment_bytes)
    assert slave.start_position == slave.end_position == SMALL.segment_bytes
    replicate(world, master, slave)
    same_bytes(world, master, slave)
    again = open_member(World(), disks[1])
    assert again.start_position == SMALL.segment_bytes
    assert again.end_position == master.end_position
