"""Transfers in a time that tests turn: when a master is ready, and after it was not."""

import asyncio
from dataclasses import replace

from harness.ids import as_brokers
from harness.log_world import append, partition_number
from penstock.base.ids import BrokerId, RequestId
from penstock.controller.session import PrepareTransfer
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import Acknowledge
from penstock.replication.promise import Asker
from penstock.runtime.ha.transfer import prepare_transfer
from tests.net.serving import run
from tests.replica.test_replica_set import Parked
from tests.replica.test_slave_session import EPOCH, SET, Leading

TARGET, OTHER = as_brokers(2, 3)
REQUEST = PrepareTransfer(
    request_id=RequestId(1),
    replica_set_id=SET,
    leader_epoch=EPOCH,
    target=TARGET,
    timeout_ms=60_000,
)


class Awaited(Leading):
    """A master with two slaves in step and a request that waits for both."""

    def __init__(self) -> None:
        super().__init__(slaves=(TARGET, OTHER))
        self.sessions = {broker_id: self.streaming(broker_id) for broker_id in (TARGET, OTHER)}
        self.waiting = Parked()
        self.member.waiting_for_all.park(self.log.end_position, self.waiting)

    def acknowledge(self, broker_id: BrokerId) -> None:
        session = self.sessions[broker_id]
        while session.has_run:
            session.send_one()
            assert session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
        assert session.acknowledged == self.log.end_position


def test_a_master_is_ready_only_when_what_was_written_before_is_confirmed() -> None:
    # Else its clients hear that it is no master of what the next one has, and write it once more.
    async def scenario() -> None:
        leading = Awaited()
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
        leading = Awaited()
        late = await prepare_transfer(leading.set, replace(REQUEST, timeout_ms=1), leading.world)
        assert not late.is_ready
        assert leading.member.is_master, "it takes writes again"
        quarter_ms = ReplicationConfig().lease_ms // 4
        for _ in range(8):  # the slaves are silent, as while a switch restarts
            leading.world.advance(quarter_ms)
            leading.set.tick()
            leading.set.note_controller(leading.world.now_ms, is_caught_up=True)
        leading.member.check_readable()

    run(scenario())


def test_a_request_that_fails_leaves_the_pause_of_an_earlier_one_that_may_be_carried_out() -> None:
    async def scenario() -> None:
        leading = Awaited()
        leading.acknowledge(OTHER)
        leading.acknowledge(TARGET)
        first = replace(REQUEST, timeout_ms=100)
        ready = await prepare_transfer(leading.set, first, leading.world)
        assert ready.is_ready, ready.reason
        leading.world.advance(first.timeout_ms)
        append(leading.log, leading.log.open_partition(partition_number(0)), size=500)
        again = replace(REQUEST, request_id=RequestId(2), timeout_ms=1)
        late = await prepare_transfer(leading.set, again, leading.world)
        assert not late.is_ready
        assert leading.set.handing_over.is_open, "the first one may be recorded"
        leading.set.go_on(Asker(REQUEST.controller_epoch, RequestId(2)))
        assert not leading.set.handing_over.is_open

    run(scenario())
