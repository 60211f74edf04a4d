"""A record that rots on the disk after its log was opened is never given to a reader."""

import pytest

from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptFrame
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.world import (
    DIRECTORY,
    World,
    append,
    batches_of,
    open_log,
    partition_number,
    read_chunk,
)

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
