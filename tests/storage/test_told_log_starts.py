"""A log start that a client asked for is told to all members; retention is each one's own."""

from harness.log_world import SMALL
from penstock.base.ids import Offset
from penstock.storage.config import Retention
from tests.storage.replicas import Pair


def test_what_a_client_deletes_is_deleted_by_members_whose_retention_has_not_come_so_far():
    pair = Pair()
    for number in range(200):
        pair.append(size=2000, fill=number)
    pair.world.run()
    pair.replicate()
    pair.master.apply_retention(0, lambda _: Retention(SMALL.segment_bytes, -1))
    pair.world.run()
    kept_from = pair.partition.log_start_offset
    assert kept_from > 20
    assert pair.master.delete_records(pair.partition, Offset(20)) == kept_from
    pair.world.run()
    pair.replicate()
    assert pair.slave_partition(0).log_start_offset == 20
    end = pair.master.end_position
    for again in (7, 20):
        assert pair.master.delete_records(pair.partition, Offset(again)) == kept_from
    assert pair.master.end_position == end, "what was recorded is not recorded again"
    pair.master.delete_records(pair.partition, Offset(21))
    pair.world.run()
    pair.replicate()
    assert pair.slave_partition(0).log_start_offset == 21
