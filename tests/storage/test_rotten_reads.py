"""A record that rots on the disk after its log was opened is never given to a reader."""

import pytest

from harness.log_world import (
    DIRECTORY,
    World,
    append,
    batches_of,
    open_log,
    partition_number,
    read_chunk,
)
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptFrame
from tests.storage.faulty_disk import FaultyDisk

CONFIG = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30, reserve_bytes=0)
SIZE = 200


@pytest.mark.parametrize("at", range(0, 48 + SIZE, 7))
def test_no_flipped_byte_of_a_record_is_served(at):
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    starts = []
    for number in range(3):
        starts.append(log.end_position)
        append(log, partition, size=SIZE, fill=number)
        world.run()
    disk.flip_bit(f"{DIRECTORY}/log/{0:020d}.log", starts[1] + at)
    for offset in (0, 2):
        chunk = read_chunk(world, log, partition, offset, max_bytes=SIZE)
        assert [header.base_offset for header, _ in batches_of(chunk.data)] == [offset]
    with pytest.raises(CorruptFrame):
        read_chunk(world, log, partition, 1, max_bytes=SIZE)


@pytest.mark.parametrize("is_apart", [False, True])
def test_what_lies_before_a_rotten_record_is_served_first(is_apart):
    """A consumer gets up to the damage whatever it asks for, and is told where it is."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition, other = (log.open_partition(partition_number(number)) for number in range(2))
    starts = []
    for number in range(4):
        starts.append(log.end_position)
        append(log, partition, size=SIZE, fill=number)
        if is_apart:
            append(log, other, size=40 << 10)
        world.run()
    disk.flip_bit(f"{DIRECTORY}/log/{0:020d}.log", starts[2] + 100)
    told = []
    log.on_damage = lambda position, _: told.append(position)
    chunk = read_chunk(world, log, partition, 0, max_bytes=10 * SIZE)
    assert [header.base_offset for header, _ in batches_of(chunk.data)] == [0, 1]
    assert (chunk.size, chunk.first_offset, chunk.next_offset) == (2 * SIZE, 0, 2)
    assert told == [starts[2]]
    with pytest.raises(CorruptFrame) as refused:
        read_chunk(world, log, partition, 2, max_bytes=10 * SIZE)
    assert refused.value.position == starts[2]
