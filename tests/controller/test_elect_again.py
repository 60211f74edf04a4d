"""An operator's election that is asked for again: after a failover, or while one is under way."""

from dataclasses import replace

import pytest

from penstock.base.ids import BrokerId, PeerId, ReplicaSetId, RequestId
from penstock.controller import session as s
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import decode_error
from penstock.controller.errors import MetadataError, NoEligibleMaster, NotActiveController
from tests.controller.world import World

ELECT = s.ElectRequest(request_id=RequestId(1), replica_set_id=ReplicaSetId(1))
NAMED = replace(ELECT, master=BrokerId(3))


def error_of(answers: list[s.OperationAnswer]) -> MetadataError:
    (answer,) = answers
    return decode_error(answer.error)


def repeated(request: s.ElectRequest, answers: list[s.OperationAnswer]) -> s.ElectRequest:
    """What a broker sends to the next controller, as SessionCommands does."""
    assert isinstance(error_of(answers), NotActiveController)
    return replace(request, is_repeated=answers[0].is_begun)


def without_a_master(world: World) -> None:
    """The master dies while nobody takes over by himself."""
    world.ask(c.SetFailover(is_enabled=False))
    world.brokers[1].kill()
    world.run(1_000)


def test_what_the_next_controller_has_done_by_itself_is_the_end_of_the_request() -> None:
    world = World(controller_count=2)
    world.brokers[1].kill()
    world.run(1)
    answers = world.operate(ELECT)
    assert not answers
    world.lead(2)
    world.run(1_000)
    master = world.replica_set().master
    assert master in {2, 3}, "elected before the request comes again"
    again = world.operate(repeated(ELECT, answers))
    assert again[0].text == f"Broker {master} is master of replica set 1 in leader epoch 1."


@pytest.mark.parametrize("after_ms", range(12))
@pytest.mark.parametrize("request_", [ELECT, NAMED], ids=["any", "named"])
def test_whenever_the_controller_is_replaced_the_request_is_carried_out_once(
    request_: s.ElectRequest, after_ms: int
) -> None:
    world = World(controller_count=2)
    without_a_master(world)
    answers = world.operate(request_)
    world.run(after_ms)
    if not answers:
        world.lead(2)
        answers = world.operate(repeated(request_, answers))
        world.run(2_000)
    assert [one.error for one in answers] == [b""]
    one = world.replica_set()
    assert one.master in ({2, 3} if request_ is ELECT else {3})
    assert one.leader_epoch == 1, "one election, not two"


@pytest.mark.parametrize("after_ms", range(3))
def test_an_election_that_is_under_way_is_waited_for(after_ms: int) -> None:
    world = World()
    world.brokers[1].kill()
    world.run(after_ms)
    answers = world.operate(ELECT)
    world.run(1_000)
    assert [one.text for one in answers] == [
        "Broker 2 is master of replica set 1 in leader epoch 1."
    ]


def test_who_waits_for_an_election_without_a_winner_gets_its_own() -> None:
    world = World(broker_count=2, factor=2)
    world.shrink(1)
    world.brokers[2].is_hung = True
    world.brokers[1].kill()
    world.run(5)
    first = world.operate(ELECT)
    unclean = world.operate(replace(ELECT, request_id=RequestId(2), is_unclean=True))
    world.brokers[2].is_hung = False
    world.run(2_000)
    assert isinstance(error_of(first), NoEligibleMaster)
    assert unclean[0].text.startswith("Broker 2 is master of replica set 1")


def test_who_waits_hears_of_a_lost_lead_and_may_ask_again() -> None:
    world = World(controller_count=2)
    without_a_master(world)
    answers = [world.operate(replace(ELECT, request_id=RequestId(one))) for one in range(3)]
    world.lead(2)
    assert [repeated(ELECT, one).is_repeated for one in answers] == [True] * 3
    assert error_of(answers[2]).controller_id == PeerId(2)  # type: ignore[attr-defined]


def test_a_first_request_for_a_set_with_a_master_is_refused_for_a_transfer() -> None:
    world = World()
    assert "ask for a transfer" in str(error_of(world.operate(ELECT)))
    other = world.operate(replace(NAMED, is_repeated=True))
    assert "ask for a transfer" in str(error_of(other)), "another one than was asked for leads"


def test_a_controller_that_is_not_active_has_begun_nothing() -> None:
    world = World(controller_count=2)
    answers: list[s.OperationAnswer] = []
    world.controllers[2].active.on_operation(ELECT, answers.append)
    assert not repeated(ELECT, answers).is_repeated
