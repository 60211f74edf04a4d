"""Transfers in a time that tests turn: when a master is ready, and after it was not."""

import asyncio
from dataclasses import replace

from harness.ids import as_brokers
from harness.log_world import World, append, open_log, partition_number
from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import (
    BrokerId,
    LeaderEpoch,
    Position,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.controller.session import PrepareTransfer
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.slave_session import SlaveSession
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import Acknowledge, Begin, Hello
from penstock.replication.promise import Asker
from penstock.replication.sync_state import Recorded
from penstock.runtime.ha.transfer import prepare_transfer
from tests.net.serving import run
from tests.replica.test_replica_set import Parked
from tests.storage.faulty_disk import FaultyDisk

SET, EPOCH = ReplicaSetId(1), LeaderEpoch(2)
MASTER, TARGET, OTHER = as_brokers(1, 2, 3)
REQUEST = PrepareTransfer(
    request_id=1,
    replica_set_id=SET,
    leader_epoch=EPOCH,
    target=TARGET,
    timeout_ms=60_000,
)


class Leading:
    """A master with two slaves in step and a request that waits for both."""

    def __init__(self) -> None:
        self.world = World()
        self.log = open_log(self.world, FaultyDisk())
        self.member = ReplicaSetMember(SET, MASTER, self.log, self.world.call_soon)
        members = (MASTER, TARGET, OTHER)
        recorded = Recorded(
            replicas=members,
            sync_state_set=members,
            sync_state_set_epoch=SyncStateSetEpoch(1),
            policy=AckPolicy(),
            replica_ids={broker_id: ReplicaId(broker_id) for broker_id in members},
        )
        self.set = MasterSet(
            self.member,
            recorded,
            EPOCH,
            config=ReplicationConfig(),
            clock=self.world,
            submit=lambda _, change: self.unexpected(change),
        )
        self.set.begin()
        self.world.run()
        self.sessions = {broker_id: self.streaming(broker_id) for broker_id in (TARGET, OTHER)}
        append(self.log, self.log.open_partition(partition_number(0)), size=500)
        self.world.run()
        self.waiting = Parked()
        self.member.waiting_for_all.park(self.log.end_position, self.waiting)

    def unexpected(self, change: object) -> None:
        raise AssertionError(f"nothing has changed: {change}")

    def streaming(self, broker_id: BrokerId) -> SlaveSession:
        shape = LogShape((), Position(0), Position(0))
        hello = Hello(SET, EPOCH, ReplicaId(broker_id), "p", shape)
        session = SlaveSession(
            self.set, broker_id, hello, send=lambda _: None, on_ready=lambda _: None
        )
        session.greet()
        session.begin(Begin(SET, EPOCH, 0, 0))
        return session

    def acknowledge(self, broker_id: BrokerId) -> None:
        session = self.sessions[broker_id]
        while session.has_run:
            session.send_one()
            assert session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
        assert session.acknowledged == self.log.end_position


def test_a_master_is_ready_only_when_what_was_written_before_is_confirmed() -> None:
    # Else its clients hear that it is no master of what the next one has, and write it once more.
    async def scenario() -> None:
        leading = Leading()
        leading.acknowledge(TARGET)
        request = asyncio.create_task(prepare_transfer(leading.set, REQUEST, leading.world))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not request.done()
        assert leading.waiting.events == []
        leading.acknowledge(OTHER)
        ready = await request
        assert ready.is_ready, ready.reason
        assert leading.waiting.events == ["complete"]

    run(scenario())


def test_a_master_that_was_not_ready_reads_by_its_controllers_lease_as_before() -> None:
    """No controller moves its mastership then, and the one that asked may have died since."""

    async def scenario() -> None:
        leading = Leading()
        late = await prepare_transfer(leading.set, replace(REQUEST, timeout_ms=1), leading.world)
        assert not late.is_ready
        assert leading.member.is_master, "it takes writes again"
        quarter_ms = ReplicationConfig().lease_ms // 4
        for _ in range(8):  # the slaves are silent, as while a switch restarts
            leading.world.advance(quarter_ms)
            leading.set.tick()
            leading.set.note_controller(is_caught_up=True)
        leading.member.check_readable()

    run(scenario())


def test_a_request_that_fails_leaves_the_pause_of_an_earlier_one_that_may_be_carried_out() -> None:
    async def scenario() -> None:
        leading = Leading()
        leading.acknowledge(OTHER)
        leading.acknowledge(TARGET)
        first = replace(REQUEST, timeout_ms=100)
        ready = await prepare_transfer(leading.set, first, leading.world)
        assert ready.is_ready, ready.reason
        leading.world.advance(first.timeout_ms)
        append(leading.log, leading.log.open_partition(partition_number(0)), size=500)
        again = replace(REQUEST, request_id=2, timeout_ms=1)
        late = await prepare_transfer(leading.set, again, leading.world)
        assert not late.is_ready
        assert leading.set.handing_over.is_open, "the first one may be recorded"
        leading.set.go_on(Asker(REQUEST.controller_epoch, 2))
        assert not leading.set.handing_over.is_open

    run(scenario())
