"""A member's roles over a real log: who may write, what is refused, what is confirmed."""

import pytest

from harness.ids import as_brokers
from harness.log_world import World, append, open_log, partition_number
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, Offset, Position, ReplicaSetId
from penstock.base.invariant import InvariantViolation
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replication.confirm import Membership
from penstock.replication.errors import NotMaster
from penstock.storage.errors import LogFollows
from penstock.storage.index.partition_log import PartitionLog
from tests.replica.test_replica_set import Parked, Watching
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import replicate

A, B, C = 1, 2, 3
ASYNC = AckPolicy(kind=PolicyKind.ASYNC)


def members(*committed: int, policy: AckPolicy | None = None) -> Membership:
    return Membership(
        replicas=as_brokers(A, B, C), committed=as_brokers(*committed), policy=policy or AckPolicy()
    )


class Member:
    """Member A of a set of three, with one partition."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.disk = FaultyDisk()
        self.log = open_log(self.world, self.disk)
        self.world.run()
        self.member = ReplicaSetMember(ReplicaSetId(1), BrokerId(A), self.log, self.world.call_soon)

    def lead(self, leader_epoch: int, *committed: int, policy: AckPolicy | None = None) -> None:
        membership = members(*committed, policy=policy)
        self.member.become_master(LeaderEpoch(leader_epoch), membership)
        self.world.run()

    def append(self, records: int = 1) -> int:
        append(self.log, self.partition, records=records)
        self.world.run()
        return self.log.end_position

    @property
    def partition(self) -> PartitionLog:
        return self.log.open_partition(partition_number(0))

    def parked(self, end: int) -> Parked:
        waiting = Parked()
        self.member.waiting_for_all.park(Position(end), waiting)
        return waiting


def alone() -> Membership:
    return Membership(replicas=as_brokers(A), committed=as_brokers(A))


def test_a_set_that_grows_is_its_masters_alone_no_more() -> None:
    one = Member()
    one.member.become_master(LeaderEpoch(2), alone())
    one.world.run()
    one.append()
    assert one.log.is_sole_member
    grown = Membership(replicas=as_brokers(A, B), committed=as_brokers(A))
    one.member.change_members(grown)
    assert not one.log.is_sole_member
    one.member.change_members(Membership(replicas=(A, B), committed=(A, B)))
    confirmed = one.member.confirm_position
    assert one.append() > confirmed == one.member.confirm_position
    written: list[bool] = []
    one.log.checkpoint(written.append)
    one.world.run()
    assert written == [], "a snapshot of what nobody else holds could never be cut away"
    assert one.log.writer.claim.position <= confirmed
    one.member.acknowledge(B, one.log.end_position)
    one.world.run()
    assert written == [True]


def test_a_set_that_shrinks_to_its_master_is_its_alone_again() -> None:
    one = Member()
    one.member.become_master(
        LeaderEpoch(2), Membership(replicas=as_brokers(A, B), committed=as_brokers(A, B))
    )
    one.world.run()
    one.append()
    assert not one.log.is_sole_member
    one.member.change_members(alone())
    assert one.log.is_sole_member
    assert one.append() == one.member.confirm_position


def test_a_lone_member_that_has_resigned_closes_with_nothing_to_replay() -> None:
    # Nobody but itself can lead after it: what it holds is confirmed, also where a node has given
    # up its role before the last bytes were synced and the log is closed.
    one = Member()
    one.member.become_master(LeaderEpoch(2), alone())
    one.world.run()
    append(one.log, one.partition)
    one.member.resign()
    one.world.run()
    assert one.log.is_sole_member
    assert one.log.end_position > one.member.confirm_position
    one.log.close()
    again = open_log(World(), one.disk)
    assert again.end_position == one.log.end_position
    assert again.recovery.was_clean


def test_a_slave_knows_the_masterships_that_have_come_with_the_stream() -> None:
    master = Member()
    slave = Member(master.world)
    slave.member.become_slave(LeaderEpoch(1), BrokerId(B))
    for leader_epoch in (2, 3):
        master.lead(leader_epoch, A)
        end = master.append()
        replicate(master.world, master.log, slave.log)
        slave.member.note_master_confirmed(Position(end))
        assert slave.member.epochs.latest == leader_epoch
        assert slave.member.epochs.entries() == master.member.epochs.entries()
        master.member.resign()


def test_a_member_takes_writes_as_master_only() -> None:
    one = Member()
    with pytest.raises(NotMaster, match="no master"):
        one.member.check_writable()
    one.lead(2, A, B)
    one.member.check_writable()
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    assert (one.member.role, one.member.master_id) == (Role.SLAVE, B)
    with pytest.raises(NotMaster, match="broker 2"):
        one.member.check_writable()
    one.member.resign()
    assert one.member.role is Role.IDLE


def test_losing_the_mastership_refuses_what_waits_and_lets_fetches_look_again() -> None:
    one = Member()
    one.lead(2, A, B)
    end = one.append()
    waiting, woken = one.parked(end), []
    one.member.watch(Position(end), Watching(lambda: woken.append(one.member.role)))
    told: list[Role] = []
    one.member.on_role_changed.append(lambda member: told.append(member.role))
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    assert waiting.events == ["NotMaster"]
    assert woken == told == [Role.SLAVE]
    assert one.parked(end).events == ["NotMaster"], "also what comes late"


def test_a_master_again_takes_requests_again() -> None:
    one = Member()
    one.lead(2, A, B)
    one.append()
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    one.lead(4, A, B)
    end = one.append()
    waiting = one.parked(end)
    one.member.acknowledge(BrokerId(B), Position(end))
    assert waiting.events == ["complete"]


def test_a_new_master_confirms_what_it_holds_once_the_set_holds_its_epoch() -> None:
    one = Member()
    one.lead(2, A, B)
    end = one.append(3)
    assert one.member.confirm_position == 0
    assert one.member.confirm_position < one.member.epoch_start
    one.member.acknowledge(BrokerId(B), Position(end))
    assert one.member.confirm_position == end
    assert one.member.confirm_position > one.member.epoch_start
    assert one.member.high_watermark(one.partition) == 3


@pytest.mark.parametrize(
    "asks_more",
    [
        Membership(replicas=as_brokers(A, B), committed=as_brokers(A)),
        Membership(
            replicas=as_brokers(A),
            committed=as_brokers(A),
            policy=AckPolicy(kind=PolicyKind.ADAPTIVE, required=2, minimum=2),
        ),
    ],
)
def test_a_set_that_asks_for_more_members_tells_what_waits(asks_more: Membership) -> None:
    """Seed 256 of the simulator: acknowledged with one of two members, where two are asked for."""
    one = Member()
    one.member.become_master(LeaderEpoch(2), alone())
    one.world.run()
    waiting = one.parked(one.log.end_position + 1)
    one.member.change_members(asks_more)
    assert waiting.events == ["shrunk to 1"]
    assert one.member.least_in_step(2) == 2


def test_a_set_that_shrinks_tells_what_waits_before_it_is_confirmed() -> None:
    one = Member()
    one.lead(2, A, B, C)
    end = one.append()
    waiting = one.parked(end)
    one.member.change_members(members(A))
    assert waiting.events == ["shrunk to 1", "complete"]
    assert one.member.in_sync_count == 1


def test_a_slave_confirms_what_its_master_has_up_to_its_own_end() -> None:
    one = Member()
    one.lead(2, A, B)
    end = one.append(5)
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    one.member.note_master_confirmed(Position(end - 10))
    assert one.member.confirm_position == end - 10
    one.member.note_master_confirmed(Position(end + 4000))
    assert one.member.confirm_position == end
    one.member.note_master_confirmed(Position(40))
    assert one.member.confirm_position == end
    assert one.member.high_watermark(one.partition) == 5


def test_a_paused_master_refuses_writes_and_still_confirms() -> None:
    one = Member()
    one.lead(2, A, B)
    end = one.append()
    waiting = one.parked(end)
    pause = one.member.pause_writes()
    with pytest.raises(NotMaster, match="handed over"):
        one.member.check_writable()
    one.member.acknowledge(BrokerId(B), Position(end))
    assert waiting.events == ["complete"]
    one.member.resume_writes(pause)
    one.member.check_writable()


def test_the_end_of_an_earlier_transfer_does_not_end_the_pause_of_a_later_one() -> None:
    one = Member()
    one.lead(2, A, B)
    earlier, later = one.member.pause_writes(), one.member.pause_writes()
    one.member.resume_writes(earlier)
    with pytest.raises(NotMaster, match="handed over"):
        one.member.check_writable()
    one.member.resume_writes(later)
    one.member.check_writable()


def test_the_log_of_a_paused_master_takes_nothing_from_anybody() -> None:
    one = Member()
    one.lead(2, A, B)
    one.append()
    pause = one.member.pause_writes()
    with pytest.raises(LogFollows):
        one.append()
    with pytest.raises(LogFollows):
        one.member.log.delete_records(one.partition, Offset(1))
    with pytest.raises(LogFollows):
        one.member.log.writer.close_early()
    one.member.resume_writes(pause)
    one.append()


def test_a_pause_ends_with_the_mastership() -> None:
    one = Member()
    one.lead(2, A, B)
    pause = one.member.pause_writes()
    one.lead(3, A, B)
    one.append()
    one.member.become_slave(LeaderEpoch(4), BrokerId(B))
    one.member.resume_writes(pause)
    with pytest.raises(LogFollows):
        one.append()


def test_without_its_lease_a_master_confirms_nothing() -> None:
    one = Member()
    one.lead(2, A, B, policy=ASYNC)
    held = one.member.confirm_position
    lease = [False]
    one.member.may_confirm = lambda: lease[0]
    end = one.append()
    assert one.member.confirm_position == held
    lease[0] = True
    one.member.confirm_reached()
    assert one.member.confirm_position == end


def test_a_mastership_goes_by_no_lease_of_the_one_before() -> None:
    one = Member()
    one.lead(2, A, B, policy=ASYNC)
    one.member.may_confirm = one.member.may_read = lambda: False
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    one.lead(4, A)
    end = one.append()
    assert one.member.confirm_position == end
    one.member.check_readable()


def test_a_log_that_is_cut_gives_new_objects_and_a_lower_end() -> None:
    one = Member()
    one.lead(2, A, B)
    kept = one.append(2)
    one.append(3)
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    reopened: list[int] = []
    one.member.on_reopened.append(lambda member: reopened.append(member.log.end_position))
    before = one.partition
    one.log.truncate(Position(kept), lambda error: None)
    one.world.run()
    assert reopened == [kept]
    assert one.partition is not before
    assert one.partition.log_end_offset == 2
    assert one.member.epochs.latest == 2


def test_an_older_epoch_is_never_taken() -> None:
    one = Member()
    one.lead(2, A, B)
    with pytest.raises(InvariantViolation):
        one.member.become_slave(LeaderEpoch(1), BrokerId(B))


def test_a_master_outside_its_sync_state_set_is_an_invariant_violation() -> None:
    one = Member()
    with pytest.raises(InvariantViolation):
        one.lead(2, B, C)


def test_a_master_that_may_have_been_replaced_answers_no_reads() -> None:
    one = Member()
    one.lead(2, A, B)
    one.member.check_readable()
    one.member.may_read = lambda: False
    with pytest.raises(NotMaster, match="cut off"):
        one.member.check_readable()
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    one.member.check_readable()


def test_a_member_that_was_alone_when_its_log_was_opened_confirms_nothing_itself_as_a_slave() -> (
    None
):
    # It was down, or behind, while its set grew: nobody has told it of the change but its role.
    master = Member()
    one = Member(master.world)
    assert one.log.is_sole_member
    one.member.become_slave(LeaderEpoch(2), BrokerId(B))
    assert not one.log.is_sole_member
    master.lead(2, A)
    master.append(3)
    replicate(master.world, master.log, one.log)
    one.world.run()
    assert one.log.durable_position == master.log.end_position > one.member.confirm_position == 0
    written: list[bool] = []
    one.log.checkpoint(written.append)
    one.world.run()
    assert written == [], "the master may have it alone, and the next one cut it away"
    one.member.note_master_confirmed(master.log.end_position)
    one.world.run()
    assert written == [True]


def test_a_log_takes_nothing_until_its_member_leads_and_after_that() -> None:
    """Retention, which asks the log alone, would append in the epoch of an earlier master."""
    one = Member()
    with pytest.raises(LogFollows):
        one.append()
    one.lead(2, A)
    end = one.append()
    one.member.resign()
    with pytest.raises(LogFollows):
        one.append()
    assert one.log.end_position == end


def test_a_mastership_has_resumed_if_its_epoch_was_in_the_log_before() -> None:
    one = Member()
    one.lead(2, A)
    assert not one.member.has_resumed
    one.member.resign()
    again = ReplicaSetMember(ReplicaSetId(1), BrokerId(A), one.log, one.world.call_soon)
    again.become_master(LeaderEpoch(2), alone())
    assert again.has_resumed
    again.resign()
    again.become_master(LeaderEpoch(3), alone())
    assert not again.has_resumed


def test_a_cut_above_the_confirm_position_does_not_move_it() -> None:
    # The snapshots of the log, from which it is read again, know of less.
    one = Member()
    one.lead(2, A, B)
    confirmed = one.append(2)
    cut = one.append(2)
    one.append(3)
    one.member.become_slave(LeaderEpoch(3), BrokerId(B))
    one.member.note_master_confirmed(Position(confirmed))
    one.log.truncate(Position(cut), lambda error: None)
    one.world.run()
    assert one.log.end_position == cut
    assert one.member.confirm_position == confirmed
