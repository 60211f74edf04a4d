"""Masterships moved on purpose: transfers, preferred masters, drains."""

import pytest

from penstock.base.ack_policy import AckPolicy
from penstock.base.ids import BrokerId, ReplicaSetId, RequestId
from penstock.controller import session as s
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import decode_error
from penstock.controller.errors import (
    MetadataError,
    NotActiveController,
    NotReplica,
    TransferFailed,
    UnknownReplicaSet,
)
from tests.controller.world import World


def _error(answers: list[s.OperationAnswer]) -> MetadataError:
    return decode_error(answers[0].error)


def test_transfer_asks_the_master_to_stop_and_then_begins_the_next_mastership() -> None:
    world = World()
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(5), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(50)
    assert answers == [
        s.OperationAnswer(
            request_id=RequestId(5), text="Broker 2 is master of replica set 1 in leader epoch 1."
        )
    ]
    (prepared,) = world.brokers[1].prepared
    assert (prepared.target, prepared.leader_epoch) == (2, 0)
    one = world.replica_set()
    assert (one.master, one.last_cause, one.sync_state_set) == (2, "transfer", (1, 2, 3))
    assert not world.image.brokers[BrokerId(1)].is_fenced


def test_a_mastership_that_an_operator_moved_stays_there() -> None:
    world = World()
    world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(120_000)
    assert world.replica_set().master == 2


def test_operators_who_ask_for_a_transfer_that_is_under_way_hear_how_it_ends() -> None:
    world = World()
    first, again, elsewhere = (
        world.operate(
            s.TransferRequest(
                request_id=RequestId(number),
                replica_set_id=ReplicaSetId(1),
                target=BrokerId(target),
            )
        )
        for number, target in ((1, 2), (2, 2), (3, 3))
    )
    assert "is being moved to broker 2: look again" in str(_error(elsewhere))
    world.run(50)
    assert len(world.brokers[1].prepared) == 1
    texts = {answer.text for answers in (first, again) for answer in answers}
    assert texts == {"Broker 2 is master of replica set 1 in leader epoch 1."}
    assert [answer.request_id for answers in (first, again) for answer in answers] == [1, 2]


@pytest.mark.parametrize("target", [1, -1])
def test_who_leads_already_need_not_be_moved(target: int) -> None:
    world = World()
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(target)
        )
    )
    assert [answer.text for answer in answers] == [
        "Broker 1 is master of replica set 1 in leader epoch 0."
    ]
    assert world.brokers[1].prepared == []
    assert world.replica_set().leader_epoch == 0


def test_a_transfer_that_fails_is_told_to_all_who_asked_for_it() -> None:
    world = World()
    world.brokers[1].is_ready_to_transfer = False
    request = s.TransferRequest(
        request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
    )
    both = [world.operate(request) for _ in range(2)]
    world.run(50)
    for answers in both:
        assert "too far behind" in str(_error(answers))


def test_a_master_that_is_not_ready_keeps_its_set_and_the_operator_hears_why() -> None:
    world = World()
    world.brokers[1].is_ready_to_transfer = False
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(50)
    assert world.replica_set().master == 1
    assert "too far behind" in str(_error(answers))


def test_a_master_that_does_not_answer_ends_the_transfer_by_time() -> None:
    world = World(settings={"transfer_timeout_ms": 1_000})
    world.brokers[1].is_hung = True
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(1_400)
    assert not answers
    world.run(200)
    assert "did not answer" in str(_error(answers))
    assert world.active.stats.transfers_failed == 1


def test_an_answer_that_comes_after_the_transfer_was_given_up_changes_nothing() -> None:
    world = World(settings={"transfer_timeout_ms": 1_000})
    world.brokers[1].is_hung = True
    world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(1_600)
    world.active.on_answer(BrokerId(1), s.TransferReady(request_id=RequestId(1), is_ready=True))
    world.run(50)
    assert world.replica_set().master == 1


def test_a_target_that_dies_ends_the_transfer_at_once() -> None:
    world = World()
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.brokers[2].kill()
    assert "broker 2 is gone" in str(_error(answers))
    world.run(100)
    assert world.replica_set().master == 1


def test_a_master_that_dies_during_its_transfer_is_replaced_by_an_election() -> None:
    world = World()
    world.brokers[1].is_hung = True
    world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(3)
        )
    )
    world.run(10)
    world.brokers[1].kill()
    world.run(100)
    assert world.replica_set().last_cause == "eviction"


@pytest.mark.parametrize(
    ("set_id", "target", "wanted"),
    [
        (9, 2, UnknownReplicaSet),
        (1, 9, NotReplica),
        (1, 3, TransferFailed),
    ],
)
def test_a_transfer_that_can_not_be_is_refused_with_the_reason(
    set_id: int, target: int, wanted: type[MetadataError]
) -> None:
    world = World()
    world.shrink(1, 2)
    request = s.TransferRequest(
        request_id=RequestId(1), replica_set_id=ReplicaSetId(set_id), target=BrokerId(target)
    )
    assert type(_error(world.operate(request))) is wanted


def test_electing_a_set_with_a_live_master_is_refused_for_a_transfer() -> None:
    world = World()
    answers = world.operate(
        s.ElectRequest(request_id=RequestId(1), replica_set_id=ReplicaSetId(1), is_unclean=True)
    )
    assert "ask for a transfer" in str(_error(answers))


def test_losing_the_lead_ends_transfers_with_the_name_of_the_next_controller() -> None:
    world = World(controller_count=2)
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.lead(2)
    assert isinstance(_error(answers), NotActiveController)
    world.run(100)
    assert world.replica_set().master == 1


@pytest.mark.parametrize("broker_id", [1, 2])
@pytest.mark.parametrize("after_ms", range(7))
def test_nobody_hears_of_a_failed_transfer_that_is_recorded_after_all(
    broker_id: int, after_ms: int
) -> None:
    world = World()
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(after_ms)
    world.brokers[broker_id].kill()
    causes = [world.replica_set().last_cause]
    for _ in range(50):
        world.run(1)
        causes.append(world.replica_set().last_cause)
    assert bool(answers[0].text) is ("transfer" in causes)


def test_a_set_that_got_another_master_meanwhile_is_not_moved_by_the_old_ones_answer() -> None:
    world, asked = World(), list[s.FromController]()
    world.brokers[1].receive = lambda message, _: asked.append(message)  # type: ignore[method-assign, assignment]
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(3)
        )
    )
    world.run(2)
    (prepare,) = [one for one in asked if isinstance(one, s.PrepareTransfer)]
    world.submit(c.BeginMastership(replica_set_id=ReplicaSetId(1), master=BrokerId(2)))
    world.run(10)
    ready = s.TransferReady(request_id=prepare.request_id, is_ready=True)
    world.active.on_answer(BrokerId(1), ready)
    world.run(50)
    assert "changed meanwhile" in str(_error(answers))
    assert world.replica_set().master == 2


def test_what_failed_in_an_earlier_lead_does_not_hold_up_a_later_one() -> None:
    world = World(controller_count=2)
    world.brokers[1].is_ready_to_transfer = False
    world.operate(s.DrainRequest(request_id=RequestId(1), broker_id=BrokerId(1)))
    world.run(50)
    assert len(world.brokers[1].prepared) == 1
    world.lead(2)
    world.lead(1)
    world.run(100)
    assert len(world.brokers[1].prepared) == 2


def test_preferred_master_gets_its_set_back_after_the_delay_and_only_in_step() -> None:
    world = World()
    world.brokers[1].kill()
    world.run(100)
    world.shrink(2, 3)
    world.brokers[1].start()
    world.run(60_000)
    assert world.replica_set().master == 2
    world.shrink(1, 2, 3)
    world.run(29_000)
    assert world.replica_set().master == 2
    world.run(2_000)
    assert (world.replica_set().master, world.replica_set().last_cause) == (1, "preferred")
    assert len(world.brokers[2].prepared) == 1


def test_preferred_master_that_was_out_of_step_meanwhile_waits_for_the_whole_delay_again() -> None:
    world = World()
    world.brokers[1].kill()
    world.run(100)
    world.brokers[1].start()
    world.run(100)
    world.shrink(1, 2, 3)
    world.run(20_000)
    world.shrink(2, 3)
    world.run(20_000)
    world.shrink(1, 2, 3)
    world.run(29_000)
    assert world.replica_set().master == 2
    world.run(2_000)
    assert world.replica_set().master == 1


def test_preferred_masters_do_not_return_where_that_is_switched_off() -> None:
    world = World(settings={"preferred_master_delay_ms": -1})
    world.brokers[1].kill()
    world.run(100)
    world.brokers[1].start()
    world.run(120_000)
    assert world.replica_set().master == 2


def test_drained_broker_loses_its_masterships_first_and_its_places_in_step_then() -> None:
    world = World()
    answers = world.operate(s.DrainRequest(request_id=RequestId(4), broker_id=BrokerId(1)))
    world.run(100)
    assert answers == [
        s.OperationAnswer(
            request_id=RequestId(4), text="Broker 1 has no duties left: it can be stopped."
        )
    ]
    sets = world.image.replica_sets
    assert [replica_set.master for replica_set in sets.values()] == [2, 2, 3]
    assert all(replica_set.sync_state_set == (2, 3) for replica_set in sets.values())
    assert sets[ReplicaSetId(1)].last_cause == "drain"
    answer = world.shrink(1, 2, 3)
    assert isinstance(answer, MetadataError)  # it can not get in again
    world.check_replay()


def test_broker_that_is_about_to_stop_hands_its_masterships_over_and_stays_in_step() -> None:
    world = World(settings={"preferred_master_delay_ms": 1_000})
    world.write(10)
    stopping = world.brokers[1]
    stopping.is_stopping = True
    world.run(2_500)  # longer than a preferred master would be away
    one = world.replica_set()
    assert (one.master, one.sync_state_set, one.last_cause) == (2, (1, 2, 3), "drain")
    assert not world.image.brokers[BrokerId(1)].is_draining
    stopping.kill()
    world.brokers[2].kill()
    world.run(200)
    assert world.replica_set().master == 3, "nobody that stops was elected"
    stopping.start()
    world.run(200)
    world.shrink(1, 3)
    world.run(3_000)
    assert world.replica_set(1).master == 1, "it is another process"
    world.check_replay()


def test_a_drain_that_ends_lets_the_broker_have_its_duties_again() -> None:
    world = World(settings={"preferred_master_delay_ms": 1_000})
    world.operate(s.DrainRequest(request_id=RequestId(1), broker_id=BrokerId(1)))
    world.run(5_000)
    world.operate(s.DrainRequest(request_id=RequestId(2), broker_id=BrokerId(1), is_draining=False))
    world.run(50)
    world.shrink(1, 2, 3)
    world.run(3_000)
    assert world.replica_set().master == 1


def test_a_slave_is_drained_when_it_has_left_and_can_be_drained_again() -> None:
    world = World()
    for request_id in (1, 3):
        answers = world.operate(
            s.DrainRequest(request_id=RequestId(request_id), broker_id=BrokerId(3))
        )
        while not answers:
            world.run(1)
        assert "no duties left" in answers[0].text
        assert all(
            3 not in replica_set.sync_state_set for replica_set in world.image.replica_sets.values()
        )
        world.operate(
            s.DrainRequest(request_id=RequestId(2), broker_id=BrokerId(3), is_draining=False)
        )
        world.run(2_000)
        world.shrink(1, 2, 3)
        assert 3 in world.replica_set().sync_state_set


def test_a_drain_of_the_only_member_of_a_set_says_so_at_once() -> None:
    world = World(broker_count=1, factor=1)
    answers = world.operate(s.DrainRequest(request_id=RequestId(1), broker_id=BrokerId(1)))
    world.run(1_000)
    assert "only member of the sets [1]" in answers[0].text
    assert "penstock set add" in answers[0].text
    assert world.replica_set().master == 1


def test_a_drained_broker_keeps_copies_that_the_minimum_needs() -> None:
    world = World(broker_count=2, factor=2)
    policy = AckPolicy(minimum=2)
    world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=policy))
    world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(2), policy=policy))
    world.operate(s.DrainRequest(request_id=RequestId(1), broker_id=BrokerId(1)))
    world.run(70_000)
    assert world.replica_set().master == 2
    assert world.replica_set().sync_state_set == (1, 2)


def test_status_shows_brokers_sets_members_and_why() -> None:
    world = World(controller_count=2, racks={1: "a"})
    world.write(100)
    world.brokers[3].logs[1].end = 40
    world.run(1_100)
    world.brokers[2].kill()
    world.run(1_500)
    status = world.active.status(RequestId(7))
    assert (status.request_id, status.cluster_id) == (7, "the-cluster")
    assert [broker.is_live for broker in status.brokers] == [True, False, True]
    assert [broker.is_fenced for broker in status.brokers] == [False, True, False]
    assert (status.brokers[0].rack, status.brokers[0].master_count) == ("a", 1)
    first = status.sets[0]
    assert (first.master, first.cause, first.sync_state_set) == (1, "first", (1, 2, 3))
    assert [member.lag_bytes for member in first.members] == [0, 0, 60]
    assert [member.log_end_position for member in first.members] == [100, 100, 40]
    assert first.members[0].reported_ms_ago <= 1_000
    assert (
        world.controllers[2].active.status(RequestId(1)).sets[0].members[0].log_end_position == 100
    )
