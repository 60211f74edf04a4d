"""A replica set over a real log in a world where syncs end when the test says so."""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.ids import as_brokers
from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaId, ReplicaSetId
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.confirm import Membership
from penstock.replication.errors import ReplicationError
from penstock.storage.index.partition_log import PartitionLog
from tests.storage.faulty_disk import FaultyDisk

OWN, OTHER = ReplicaId(1), ReplicaId(2)


@dataclass
class Parked:
    deadline_ms: int = 1000
    events: list[str] = field(default_factory=list)

    def complete(self) -> None:
        self.events.append("complete")

    def expire(self) -> bool:
        self.events.append("expire")
        return False

    def fail(self) -> None:
        self.events.append("fail")

    def refuse(self, error: ReplicationError) -> None:
        self.events.append(type(error).__name__)

    def shrunk(self, in_sync_count: int) -> None:
        self.events.append(f"shrunk to {in_sync_count}")


@dataclass(eq=False)
class Watching:
    on_wake: Callable[[], None]

    def wake(self) -> None:
        self.on_wake()


def in_step(members: tuple[ReplicaId, ...]) -> Membership:
    return Membership(replicas=as_brokers(*members), committed=as_brokers(*members))


class Master:
    """A master with one partition."""

    def __init__(self, members: tuple[ReplicaId, ...] = (OWN,)) -> None:
        self.world = World()
        self.disk = FaultyDisk()
        self.log = open_log(self.world, self.disk)
        self.member = ReplicaSetMember(
            ReplicaSetId(1), BrokerId(OWN), self.log, self.world.call_soon
        )
        self.member.become_master(LeaderEpoch(2), in_step(members))
        self.partition: PartitionLog = self.log.open_partition(partition_number(0))
        self.world.run()

    def append(self, records: int = 1) -> None:
        append(self.log, self.partition, records=records)

    def high_watermark(self) -> int:
        known = self.member.high_watermark(self.partition)
        assert known is not None
        return known


def test_the_high_watermark_moves_when_the_sync_has_ended_and_not_when_it_is_written() -> None:
    master = Master()
    master.append(3)
    assert master.high_watermark() == 0
    master.world.turn()
    assert master.log.written_position == master.log.end_position
    assert master.high_watermark() == 0
    master.world.run()
    assert master.high_watermark() == 3


def test_what_is_appended_during_a_sync_stays_invisible_after_it() -> None:
    master = Master()
    master.append(3)
    master.world.turn()
    master.append(2)
    master.world.turn()
    master.world.work_one()
    master.world.turn()
    assert master.high_watermark() == 3
    master.world.run()
    assert master.high_watermark() == 5


def test_a_second_mastership_does_not_show_records_that_are_not_durable() -> None:
    master = Master()
    master.append(2)
    master.world.run()
    master.append(3)
    master.world.turn()
    master.member.become_master(LeaderEpoch(3), in_step((OWN,)))
    assert master.high_watermark() == 2
    master.world.run()
    assert master.high_watermark() == 5
    assert master.member.leader_epoch == 3


def test_a_request_parked_before_a_second_mastership_is_answered_after_it() -> None:
    master = Master()
    parked = Parked()
    master.append()
    master.member.waiting_for_all.park(master.log.end_position, parked)
    master.member.become_master(LeaderEpoch(3), in_step((OWN,)))
    assert parked.events == []
    master.world.run()
    assert parked.events == ["complete"]


def test_acks_all_waits_for_the_other_replica_and_acks_one_does_not() -> None:
    master = Master((OWN, OTHER))
    for_all, for_master = Parked(), Parked()
    master.append()
    end = master.log.end_position
    master.member.waiting_for_all.park(end, for_all)
    master.member.waiting_for_master.park(end, for_master)
    master.world.run()
    assert (for_all.events, for_master.events) == ([], ["complete"])
    assert master.high_watermark() == 0


def test_a_watched_partition_is_woken_once_its_end_is_confirmed() -> None:
    master = Master()
    seen: list[int] = []
    master.append()
    watching = Watching(lambda: seen.append(master.high_watermark()))
    master.member.watch(master.log.end_position, watching)
    master.world.turn()
    assert seen == []
    master.world.run()
    assert seen == [1]


def test_a_fenced_log_fails_what_waits_and_says_so_once() -> None:
    master = Master()
    parked, fenced = Parked(), []
    master.member.on_fenced = lambda member, error: fenced.append((member, str(error)))
    master.append()
    master.member.waiting_for_all.park(master.log.end_position, parked)
    master.disk.fail("sync", "log", 5)
    master.world.run()
    assert parked.events == ["fail"]
    assert [member for member, _ in fenced] == [master.member]
    assert master.high_watermark() == 0
    late = Parked()
    master.member.waiting_for_all.park(master.log.end_position, late)
    assert late.events == ["fail"]


def test_a_partition_that_asks_again_at_each_wake_waits_in_one_place() -> None:
    master = Master((OWN, OTHER))
    watching = Watching(lambda: None)
    ends = []
    for _ in range(4):
        master.append()
        ends.append(master.log.end_position)
    master.world.run()
    for end in (*ends[:-1], ends[-1]):
        master.member.watch(end, watching)
    for end in ends[:-1]:
        master.member.acknowledge(BrokerId(OTHER), end)
        master.member.watch(ends[-1], watching)  # not enough yet
    assert [end for end, _ in master.member._visible] == [ends[-1]]
