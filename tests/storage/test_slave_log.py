"""A slave's log between two masterships: what it keeps, and when it may be led."""

import pytest

from harness.log_world import append, partition_number, read_all
from penstock.base.ids import LeaderEpoch
from penstock.storage.errors import LogBusy
from tests.storage.replicas import Pair, pair_with_a_shorter_segment, take_run


def test_what_a_new_master_writes_while_its_segment_is_resized_is_not_cut():
    pair = pair_with_a_shorter_segment()
    run = take_run(pair.world, pair.master, pair.slave.end_position)
    assert pair.slave.append_run(run) == 0, "its segment gets the master's length first"
    slave, own = pair.slave, pair.slave_partition()
    slave.is_sole_member = True
    with pytest.raises(LogBusy):
        slave.begin_epoch(LeaderEpoch(2))
    pair.world.run()
    slave.begin_epoch(LeaderEpoch(2))
    for number in range(20):
        append(slave, own, size=500, fill=number)
        pair.world.run()
    assert slave.flushed_position == slave.end_position
    assert len(read_all(pair.world, slave, own)) == 60


def test_a_slave_forgets_dropped_partitions():
    pair = Pair()
    for number in range(50):
        pair.append(partition=pair.master.open_partition(partition_number(number)))
    pair.replicate()
    for number in range(50):
        pair.slave.drop_partition(partition_number(number))
    assert pair.slave.parts.appender._by_key == {}
