"""Markers in the runs that a slave gets."""

import pytest

from harness.log_world import SMALL, World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch, ProducerId
from penstock.frames.errors import BadRun
from penstock.record.batch import CONTROL, TRANSACTIONAL, read_header
from penstock.record.build import Record, build_batch
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import open_member, take_run


@pytest.mark.parametrize("key", [None, b"\0", b"\0\0\0\1"])
def test_a_slave_takes_no_marker_that_it_can_not_read(key: bytes | None) -> None:
    world = World()
    log = open_log(world, FaultyDisk(), SMALL)
    log.begin_epoch(LeaderEpoch(2))
    partition = log.open_partition(partition_number(0))
    append(log, partition)
    world.run()
    wrong = memoryview(
        build_batch(
            [Record(key, b"\0")],
            producer_id=7,
            producer_epoch=0,
            attributes=TRANSACTIONAL | CONTROL,
        )
    )
    header = read_header(wrong)
    log.writer.append(partition, wrong, header._replace(attributes=0, producer_id=ProducerId(-1)))
    world.run()
    slave = open_member(world, FaultyDisk())
    slave.follow()

    def follow() -> None:
        for _ in range(5):
            slave.append_run(take_run(world, log, slave.end_position))
            world.run()

    with pytest.raises(BadRun, match="marker"):
        follow()
    assert slave.open_partition(partition_number(0)).log_end_offset == 1
