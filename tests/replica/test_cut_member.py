"""A slave whose log was cut: what it says of confirmed records is not more than it has."""

from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId
from penstock.replica.replica_set import ReplicaSetMember
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import settle


def test_after_a_cut_below_what_was_confirmed_the_confirm_position_is_the_end() -> None:
    # That happens after an unclean election only; then the lost records must not count as known.
    world = World()
    log = open_log(world, FaultyDisk())
    partition = log.open_partition(partition_number(0))
    append(log, partition, records=3)
    kept = log.end_position
    append(log, partition, records=2)
    world.run()
    member = ReplicaSetMember(ReplicaSetId(1), BrokerId(2), log, world.call_soon)
    member.become_slave(LeaderEpoch(1), BrokerId(1))
    member.note_master_confirmed(log.end_position)
    assert member.high_watermark(partition) == 5
    settle(world, log.truncate, kept)
    assert member.confirm_position == kept
    member.note_master_confirmed(kept)
    assert member.high_watermark(log.open_partition(partition_number(0))) == 3
