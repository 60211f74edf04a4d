"""Rounds and transfers whose answers were given before something that they do not know of."""

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId, RequestId
from penstock.controller import session as s
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import decode_error
from penstock.controller.metadata.image import NO_MASTER
from tests.controller.world import Log, Process, World

QUORUM = AckPolicy(kind=PolicyKind.QUORUM)


class SlowToAnswer:
    """A broker whose messages from the controller are kept until `answer`."""

    def __init__(self, world: World, broker_id: int) -> None:
        self._broker = world.brokers[broker_id]
        self._receive = self._broker.receive
        self._kept: list[tuple[s.FromController, Process]] = []
        self._broker.receive = self._keep  # type: ignore[method-assign]

    def _keep(self, message: s.FromController, process: Process) -> None:
        self._kept.append((message, process))

    def answer(self) -> None:
        self._broker.receive = self._receive  # type: ignore[method-assign]
        for message in self._kept:
            self._broker.receive(*message)


def hold(world: World, *broker_ids: int, epoch: int, end: int) -> None:
    """These members hold the log up to `end`: with three of five that is confirmed."""
    for broker_id in broker_ids:
        log_id = world.brokers[broker_id].logs[1].log_id
        world.brokers[broker_id].logs[1] = Log(log_id, epoch=epoch, end=end)


def test_answers_from_before_another_mastership_elect_nobody_after_it() -> None:
    # A transfer is on its way as the old master dies. The new one confirms something with those who
    # have answered by then, and dies while the round still waits for the last answer.
    world = World(broker_count=5, factor=5, settings={"preferred_master_delay_ms": -1})
    world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=QUORUM))
    world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(2), target=BrokerId(3)
        )
    )
    world.run(50)  # nobody has to be asked when broker 2, which leads no other set, is found dead
    hold(world, 1, 2, 3, 4, epoch=0, end=10)
    hold(world, 5, epoch=0, end=12)
    slow = SlowToAnswer(world, 5)
    world.operate(
        s.TransferRequest(
            request_id=RequestId(2), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(1)
    world.brokers[1].kill()
    world.run(20)
    assert (world.replica_set().master, world.replica_set().leader_epoch) == (2, 1)
    hold(world, 2, 3, 4, epoch=1, end=30)
    world.brokers[2].kill()
    world.run(20)
    assert world.replica_set().master == NO_MASTER
    slow.answer()
    world.run(200)
    assert world.replica_set().master in {3, 4}, "they hold what was confirmed"


def test_answers_from_before_another_policy_elect_nobody_after_it() -> None:
    # Nobody promised anything: without all of them nothing could be confirmed. Now it can.
    world = World(broker_count=5, factor=5, settings={"preferred_master_delay_ms": -1})
    hold(world, 1, 2, 3, 4, epoch=0, end=10)
    hold(world, 5, epoch=0, end=12)
    slow = SlowToAnswer(world, 5)
    world.brokers[1].disconnect()
    world.run(20)
    assert world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=QUORUM)) is None
    hold(world, 1, 2, 3, epoch=0, end=30)
    slow.answer()
    world.run(200)
    assert world.replica_set().master in {2, 3}, "they hold what was confirmed"


def test_a_master_that_was_ready_under_another_policy_is_not_replaced() -> None:
    # It promised nothing, as nothing is confirmed without its successor. Now it can be.
    world = World()
    slow = SlowToAnswer(world, 1)
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(5)
    assert world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=QUORUM)) is None
    slow.answer()
    world.run(50)
    assert (world.replica_set().master, world.replica_set().leader_epoch) == (1, 0)
    assert "the set has changed meanwhile" in str(decode_error(answers[0].error))
