"""A master believes of a slave what can be, and of the slave's newest session only."""

import pytest

from harness.ids import as_brokers
from harness.log_world import World, append, open_log, partition_number
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import (
    BrokerId,
    LeaderEpoch,
    Position,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.replica.copy_turns import CopyTurns
from penstock.replica.master_set import MasterSet
from penstock.replica.parts_of_logs import may_count, may_have_part
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.slave_session import SlaveSession
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.copy_pace import CopyPace
from penstock.replication.epochs import EpochStart
from penstock.replication.errors import NotMaster
from penstock.replication.messages import Acknowledge, Begin, HaMessage, Hello, Reason, Refused
from penstock.replication.sync_state import Change, Recorded
from tests.storage.faulty_disk import FaultyDisk

SET, EPOCH = ReplicaSetId(1), LeaderEpoch(2)
MASTER, SLAVE = 1, 2
REPLICA_ID = 7


def recorded_with(
    replica_ids: dict[BrokerId, ReplicaId],
    slaves: tuple[int, ...] = (SLAVE,),
    in_step: tuple[int, ...] | None = None,
    policy: AckPolicy | None = None,
) -> Recorded:
    """Slaves that are named are in step, unless `in_step` says otherwise."""
    return Recorded(
        replicas=as_brokers(MASTER, *slaves),
        sync_state_set=as_brokers(MASTER, *(slaves if in_step is None else in_step)),
        sync_state_set_epoch=SyncStateSetEpoch(1),
        policy=policy or AckPolicy(),
        replica_ids=replica_ids,
    )


class Leading:
    """A master with some records, and what it sends to its slaves."""

    def __init__(
        self,
        *,
        slaves: tuple[int, ...] = (SLAVE,),
        in_step: tuple[int, ...] | None = None,
        policy: AckPolicy | None = None,
        config: ReplicationConfig | None = None,
        batches: int = 5,
        is_resuming: bool = False,
    ) -> None:
        self.world = World()
        self.disk = FaultyDisk()
        self.log = open_log(self.world, self.disk)
        partition = self.log.open_partition(partition_number(0))
        for number in range(batches):
            append(self.log, partition, size=500, fill=number)
        self.world.run()
        self.member = ReplicaSetMember(SET, BrokerId(MASTER), self.log, self.world.call_soon)
        replica_ids = {BrokerId(MASTER): ReplicaId(1)}
        replica_ids |= {slave: ReplicaId(REPLICA_ID) for slave in as_brokers(*slaves)}
        recorded = recorded_with(replica_ids, slaves, in_step, policy)
        self.set = MasterSet(
            self.member,
            recorded,
            EPOCH,
            config=config or ReplicationConfig(),
            clock=self.world,
            submit=self.submitted,
            is_resuming=is_resuming,
        )
        if is_resuming:
            self.log.begin_epoch(EPOCH)
        else:
            self.set.begin()
        self.world.run()
        self.sent: list[HaMessage] = []
        self.turns = CopyTurns(CopyPace(0, self.world), self.world)

    def submitted(self, _: MasterSet, change: Change) -> None:
        raise AssertionError(f"nothing has changed: {change}")

    def greeted(self, shape: LogShape | None = None, slave: int = SLAVE) -> SlaveSession:
        session = SlaveSession(
            self.set,
            BrokerId(slave),
            Hello(
                SET,
                EPOCH,
                ReplicaId(REPLICA_ID),
                "p",
                shape or LogShape((), Position(0), Position(0)),
            ),
            send=self.sent.append,
            on_ready=lambda _: None,
            turns=self.turns,
        )
        session.greet()
        return session

    def streaming(self, slave: int = SLAVE) -> SlaveSession:
        session = self.greeted(slave=slave)
        session.begin(Begin(SET, EPOCH, Position(0), Position(0)))
        return session


def test_a_slave_can_not_hold_what_it_was_not_sent():
    leading = Leading()
    session = leading.streaming()
    session.send_one()
    sent = session.next_position
    assert sent > 0
    assert not session.acknowledge(Acknowledge(SET, EPOCH, Position(sent + 1)))
    assert leading.member.confirm_position == 0
    assert session.acknowledge(Acknowledge(SET, EPOCH, sent))
    assert not session.acknowledge(Acknowledge(SET, EPOCH, Position(sent - 1)))
    assert session.acknowledged == sent


def test_a_slave_does_not_begin_behind_where_the_logs_are_known_to_be_equal():
    leading = Leading()
    end = leading.log.end_position
    other = LogShape((EpochStart(LeaderEpoch(1), Position(7)),), Position(0), Position(end))
    session = leading.greeted(other)
    session.begin(Begin(SET, EPOCH, end, Position(0)))
    assert not session.is_streaming
    refusal = leading.sent[-1]
    assert isinstance(refusal, Refused)
    assert refusal.reason is Reason.DIVERGED


def test_the_late_end_of_a_replaced_session_leaves_the_newest_alone():
    leading = Leading()
    older = leading.streaming()
    newer = leading.streaming()
    assert older.is_closed
    leading.set.gone(older)
    assert leading.set.sessions == {SLAVE: newer}
    assert leading.set.keeper.slaves[BrokerId(SLAVE)].is_connected
    leading.set.gone(newer)
    assert leading.set.sessions == {}
    assert not leading.set.keeper.slaves[BrokerId(SLAVE)].is_connected


def test_what_a_lost_log_had_acknowledged_counts_no_more() -> None:
    # Under a quorum it would: the records that it stood for are on the master alone.
    leading = Leading()
    session = leading.streaming()
    session.send_one()
    assert session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
    assert leading.member.confirm.acknowledged(BrokerId(SLAVE)) == session.acknowledged > 0
    leading.set.gone(session)
    leading.set.recorded(
        recorded_with({BrokerId(MASTER): ReplicaId(1), BrokerId(SLAVE): ReplicaId(REPLICA_ID + 1)})
    )
    assert leading.member.confirm.acknowledged(BrokerId(SLAVE)) == 0
    assert leading.set.keeper.slaves[BrokerId(SLAVE)].acknowledged == -1


def test_the_session_of_a_log_that_is_not_registered_any_more_ends() -> None:
    leading = Leading()
    session = leading.streaming()
    leading.set.recorded(
        recorded_with({BrokerId(MASTER): ReplicaId(1), BrokerId(SLAVE): ReplicaId(REPLICA_ID)})
    )
    assert not session.is_closed
    leading.set.recorded(recorded_with({BrokerId(MASTER): ReplicaId(1)}))
    assert session.is_closed
    refusal = leading.sent[-1]
    assert isinstance(refusal, Refused)
    assert refusal.reason is Reason.UNKNOWN_REPLICA


def test_an_answer_that_is_read_late_ends_the_lease_no_later() -> None:
    # The controllers count from when the heartbeat came, and elect another master when that is old.
    leading = Leading()
    world, lease_ms = leading.world, ReplicationConfig().lease_ms
    begun_ms = world.now_ms
    for _ in range(3):  # it lies in a buffer, or the loop is busy, for less than a suspend takes
        world.now_ms += lease_ms // 4
        leading.set.note_controller(begun_ms, is_caught_up=True)
    world.now_ms = begun_ms + lease_ms - 1
    assert leading.set.may_read()
    world.now_ms += 1
    assert not leading.set.may_read()
    leading.set.note_controller(begun_ms, is_caught_up=True)
    assert not leading.set.may_read(), "it answers what was sent when the lease began"
    leading.set.note_controller(world.now_ms, is_caught_up=True)
    assert leading.set.may_read()


def test_what_a_slave_says_keeps_the_lease_from_when_that_was_sent_which_it_had_read() -> None:
    # It may have been cut off since it said so, and have been elected.
    leading = Leading()
    world, lease_ms = leading.world, ReplicationConfig().lease_ms
    session, begun_ms = leading.streaming(), world.now_ms
    session.send_one()
    world.now_ms += lease_ms - 1
    assert leading.set.may_read()
    at = session.next_position
    assert session.acknowledge(Acknowledge(SET, EPOCH, at, begun_ms + 5))
    assert session.acknowledge(Acknowledge(SET, EPOCH, at, begun_ms + 10))
    assert session.acknowledge(Acknowledge(SET, EPOCH, at, begun_ms + 5)), "said again, late"
    world.now_ms = begun_ms + 10 + lease_ms - 1
    assert leading.set.may_read()
    world.now_ms += 1
    assert not leading.set.may_read()


def test_a_slave_that_takes_long_to_begin_keeps_the_lease_from_when_it_was_greeted() -> None:
    leading = Leading()
    session, begun_ms = leading.greeted(), leading.world.now_ms
    leading.world.now_ms += ReplicationConfig().lease_ms // 2
    session.begin(Begin(SET, EPOCH, Position(0), Position(0)))
    leading.world.now_ms = begun_ms + ReplicationConfig().lease_ms - 1
    assert leading.set.may_read()
    leading.world.now_ms += 1
    assert not leading.set.may_read()


def test_a_slave_of_an_earlier_release_keeps_no_lease() -> None:
    leading = Leading()
    session, begun_ms = leading.streaming(), leading.world.now_ms
    session.send_one()
    leading.world.now_ms += 10
    assert session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
    leading.world.now_ms = begun_ms + ReplicationConfig().lease_ms
    assert not leading.set.may_read()


def test_a_mastership_begins_without_a_lease_and_an_old_image_gives_it_none() -> None:
    # Who is still catching up may read "you lead" long after somebody else was elected.
    leading = Leading()
    assert not leading.set.may_read()
    leading.set.note_controller(leading.world.now_ms, is_caught_up=False)
    assert not leading.set.may_read()
    leading.set.note_controller(leading.world.now_ms, is_caught_up=True)
    assert leading.set.may_read()
    leading.world.now_ms += ReplicationConfig().lease_ms // 2
    leading.set.note_controller(leading.world.now_ms, is_caught_up=False)
    leading.world.now_ms += ReplicationConfig().lease_ms // 2
    assert leading.set.may_read(), "it keeps a lease that is held"


def test_a_slave_that_shakes_hands_gives_the_lease() -> None:
    leading = Leading()
    leading.streaming()
    assert leading.set.may_read()


def test_a_mastership_that_resumes_confirms_nothing_in_the_call_that_begins_it() -> None:
    # Its first frame is durable from before, and one copy is enough: only the lease holds it up.
    leading = Leading()
    recorded = recorded_with(
        {BrokerId(MASTER): ReplicaId(1), BrokerId(SLAVE): ReplicaId(REPLICA_ID)}
    )
    again = MasterSet(
        ReplicaSetMember(SET, BrokerId(MASTER), leading.log, leading.world.call_soon),
        recorded._replace(policy=AckPolicy(kind=PolicyKind.ASYNC)),
        EPOCH,
        config=ReplicationConfig(),
        clock=leading.world,
        submit=leading.submitted,
        is_resuming=True,
    )
    readable: list[bool] = []
    again.member.on_role_changed.append(lambda member: readable.append(_is_readable(member)))
    again.begin()
    assert again.member.is_master
    assert again.member.confirm_position == 0
    assert readable == [False]
    again.note_controller(leading.world.now_ms, is_caught_up=True)
    again.tick()
    assert again.member.confirm_position == leading.log.end_position


def test_what_a_slave_acknowledges_while_a_mastership_resumes_keeps_it_in_step() -> None:
    leading = Leading(is_resuming=True)
    session = leading.streaming()
    while session.has_run:
        session.send_one()
        session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
    leading.set.begin()
    leading.set.tick()  # it would ask for a set without the slave, which `submitted` refuses
    assert leading.member.confirm_position == leading.log.end_position
    leading.set.tick()
    assert leading.set.keeper.slaves[BrokerId(SLAVE)].acknowledged == leading.log.end_position


def _is_readable(member: ReplicaSetMember) -> bool:
    try:
        member.check_readable()
    except NotMaster:
        return False
    return True


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_slave_that_begins_inside_a_frame_is_refused_and_nothing_is_taken_for_damage(
    *, is_cold: bool
) -> None:
    """It is confused, or lies: the master's log is whole, and leads on."""
    leading = Leading()
    told: list[int] = []
    leading.log.on_damage = lambda position, _: told.append(position)
    end = leading.log.end_position
    shape = LogShape([EpochStart(LeaderEpoch(1), Position(0))], Position(0), Position(end))
    leading.disk.is_cold = is_cold
    for position in (1, 59, 700, end - 100):
        session = leading.greeted(shape)
        session.begin(Begin(SET, EPOCH, Position(position), Position(0)))
        session.send_one()
        leading.world.run()
        refusal = leading.sent[-1]
        assert isinstance(refusal, Refused)
        assert refusal.reason is Reason.DIVERGED
    assert told == []


def test_a_slave_that_greets_on_a_new_link_is_not_connected_before_it_begins() -> None:
    # Else it would have no grace to lose, and stay in step by greeting again and again.
    leading = Leading()
    leading.streaming()
    leading.greeted()
    slave = leading.set.keeper.slaves[BrokerId(SLAVE)]
    assert not slave.is_connected
    assert slave.gone_ms == leading.world.now_ms


def test_what_a_lost_log_held_confirms_nothing_under_a_policy_that_comes_with_its_loss() -> None:
    # A snapshot of the metadata may tell of several changes at once.
    three_of_three = AckPolicy(kind=PolicyKind.K_OF_N, required=3)
    leading = Leading(slaves=(SLAVE, 3), policy=three_of_three)
    session, other = leading.streaming(), leading.streaming(slave=3)
    while session.has_run:
        session.send_one()
        session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
    leading.set.note_controller(leading.world.now_ms, is_caught_up=True)
    assert (other.acknowledged, leading.member.confirm_position) == (0, 0)
    ids = {BrokerId(MASTER): 1, BrokerId(SLAVE): REPLICA_ID + 1, BrokerId(3): REPLICA_ID}
    replica_ids = {broker_id: ReplicaId(number) for broker_id, number in ids.items()}
    two_of_three = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
    leading.set.recorded(recorded_with(replica_ids, (SLAVE, 3), policy=two_of_three))
    assert leading.member.confirm.membership.policy == two_of_three
    assert leading.member.confirm_position == 0, "the master alone has it"


def test_what_was_written_before_a_slave_began_is_verified_for_it_and_later_frames_are_not() -> (
    None
):
    leading = Leading()
    session = leading.streaming()
    checked = []
    while session.has_run:
        checked.append(session.is_checked)
        session.send_one()
    assert checked
    assert all(checked)
    assert not session.is_checked


def test_only_who_can_not_be_elected_before_it_joins_begins_with_the_newest_segment() -> None:
    outside = Leading(slaves=(SLAVE, 3), in_step=(SLAVE,)).set.keeper.membership
    assert may_have_part(outside, BrokerId(3))
    assert not may_have_part(outside, BrokerId(SLAVE))
    for kind in (PolicyKind.QUORUM, PolicyKind.K_OF_N):
        policy = AckPolicy(kind=kind, required=2)
        counting = Leading(slaves=(SLAVE, 3), in_step=(SLAVE,), policy=policy)
        membership = counting.set.keeper.membership
        assert not may_have_part(membership, BrokerId(3))
        for whole_from, kept_from, counts in ((0, 0, True), (1, 0, False), (1, 1, True)):
            ends = {"whole_from": Position(whole_from), "kept_from": Position(kept_from)}
            assert may_count(membership, BrokerId(3), **ends) is counts
            assert may_count(membership, BrokerId(SLAVE), **ends), "it was judged"
        session = counting.greeted(slave=3)
        session.begin(Begin(SET, EPOCH, Position(0), Position(1)))
        refusal = counting.sent[-1]
        assert isinstance(refusal, Refused)
        assert (refusal.reason, session.is_closed) == (Reason.NOT_READY, True)


def test_what_a_part_has_acknowledged_confirms_nothing_when_its_policy_begins_to_count_it() -> None:
    leading = Leading(slaves=(SLAVE, 3), in_step=(SLAVE,))
    leading.set.note_controller(leading.world.now_ms, is_caught_up=True)
    session = leading.greeted(slave=3)
    session.begin(Begin(SET, EPOCH, Position(0), Position(1)))
    while session.has_run:
        session.send_one()
        session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
    end = leading.log.end_position
    assert leading.member.confirm.acknowledged(BrokerId(3)) == end
    replica_ids = {BrokerId(MASTER): ReplicaId(1)}
    replica_ids |= {slave: ReplicaId(REPLICA_ID) for slave in as_brokers(SLAVE, 3)}
    quorum = AckPolicy(kind=PolicyKind.QUORUM)
    leading.set.recorded(recorded_with(replica_ids, (SLAVE, 3), (SLAVE,), quorum))
    assert leading.member.confirm_position == 0, "of the two that a quorum takes one has a part"
    assert leading.member.confirm.acknowledged(BrokerId(3)) == 0
    assert session.is_closed
