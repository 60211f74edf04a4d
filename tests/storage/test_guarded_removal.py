"""A segment out of retention goes when the last read off the loop that may use it has ended."""

from harness.log_world import (
    ALL,
    SMALL,
    World,
    append,
    batches_of,
    open_log,
    partition_number,
)
from penstock.base.ids import Offset
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk
from penstock.storage.config import Retention
from tests.storage.faulty_disk import FaultyDisk


def test_a_read_under_way_keeps_the_file_that_retention_removes():
    # The file is used again for another segment: a late read would find other records in it.
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))
    for number in range(200):
        append(log, partition, size=1000, fill=number)
        world.run()
    first = f"{log.directory}/log/{0:020d}.log"
    disk.is_cold = True
    found = log.read(partition, Offset(0), 10_000, ALL)
    assert isinstance(found, NeedsDisk)
    answers = []
    found.load(lambda chunk, error: answers.append(error or chunk))
    work, done = world.work.pop()  # a thread that gets no time for now

    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert partition.log_start_offset > 50
    assert first in disk.names

    done(work(), None)
    world.run()
    (chunk,) = answers
    assert isinstance(chunk, Chunk)
    assert batches_of(chunk.data)[0][0].base_offset == 0
    assert first not in disk.names
    store = log.parts.store
    assert store._open.keys() <= {segment.base for segment in store.segments}, "nor is it held open"
