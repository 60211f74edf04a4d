"""A promise of a member holds for as long as what rests on it can still be recorded."""

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ControllerEpoch, PeerId, ReplicaSetId, RequestId
from penstock.controller import session as s
from penstock.controller.commands import command as c
from penstock.controller.errors import MetadataError, MetadataTimeout, NotActiveController
from tests.controller.world import World

TWO_OF_THREE = AckPolicy(kind=PolicyKind.K_OF_N, required=2)
LONG_MS = 60_000


def made(policy: AckPolicy = TWO_OF_THREE, controllers: int = 1) -> World:
    world = World(controller_count=controllers)
    world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=policy))
    world.write(10)
    return world


def held(world: World) -> list[int]:
    """Return who keeps a promise about set 1."""
    return [key for key, one in world.brokers.items() if one.promised_to(1) != s.NOT_PROMISED]


def suspect_master(world: World) -> None:
    """The master is silent until somebody else is elected, which the log does not tell."""
    world.is_log_slow = True
    world.brokers[1].is_hung = True
    world.run(7_000)
    world.brokers[1].is_hung = False
    assert world.replica_set().master == 1
    assert world.late


def test_a_member_that_was_asked_has_promised() -> None:
    world = made()
    suspect_master(world)
    assert held(world) == [2, 3]


def test_where_all_members_hold_every_write_nothing_is_promised() -> None:
    world = made(AckPolicy(kind=PolicyKind.ALL))
    suspect_master(world)
    assert held(world) == []
    world.commit_late()
    world.run(2_000)
    assert world.replica_set().master == 2


def test_no_time_ends_a_promise_while_the_election_may_still_be_recorded() -> None:
    world = made()
    suspect_master(world)
    world.run(LONG_MS)
    assert held(world) == [2, 3]
    world.commit_late()
    assert world.replica_set().master == 2


def test_an_election_that_was_never_recorded_is_off_once_the_log_has_gone_on() -> None:
    world = made()
    suspect_master(world)
    world.lose_late()
    world.run(2_000)
    assert held(world) == []
    assert world.replica_set().master == 1


def test_the_next_controller_releases_what_was_promised_to_a_dead_one() -> None:
    world = made(controllers=2)
    suspect_master(world)
    world.run(LONG_MS)
    assert held(world) == [2, 3]
    world.stop_controller(1)
    world.lose_late()
    world.lead(2)
    world.run(2_000)
    assert held(world) == []
    assert world.replica_set().master == 1


def test_a_controller_that_does_not_lead_any_more_releases_nothing() -> None:
    world = made(controllers=2)
    suspect_master(world)
    world.term += 1  # somebody else leads, and reaches no broker
    world.controllers[1].active.on_leadership(
        world.controllers[1].active._leadership._replace(is_leader=False, leader_id=PeerId(2))
    )
    world.run(LONG_MS)
    assert held(world) == [2, 3]


def test_a_round_that_nobody_wins_releases_whom_it_has_asked_at_once() -> None:
    world = made()
    world.brokers[3].is_cut = True  # it is asked, and does not answer
    world.brokers[1].logs[1].has_failed = True
    world.run(1_050)
    while not held(world):
        world.run(1)
    begun_ms = world.time.now
    while held(world):
        world.run(1)
    waited_ms = world.time.now - begun_ms
    assert waited_ms <= world.config.probe_timeout_ms + 5
    assert world.replica_set().master == 1, "nobody could be elected"


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("answer", [MetadataTimeout(1), NotActiveController(PeerId(-1))])
def test_a_master_that_was_ready_confirms_nothing_while_its_transfer_may_be_recorded(
    answer: MetadataError, *, is_recorded: bool
) -> None:
    world = made()
    world.late_error = answer
    world.is_log_slow = True
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(LONG_MS)
    assert held(world) == [1]
    assert not answers
    if is_recorded:
        world.commit_late()
        assert world.replica_set().master == 2
    else:
        world.lose_late()
        world.run(2_000)
        assert held(world) == []
        assert world.replica_set().master == 1
    world.run(2_000)
    assert answers


def test_a_transfer_that_is_refused_lets_the_master_go_on_at_once() -> None:
    world = made()
    one = world.replica_set()
    world.submit(
        c.ChangeSyncStateSet(
            replica_set_id=ReplicaSetId(1),
            master=BrokerId(1),
            leader_epoch=one.leader_epoch,
            sync_state_set_epoch=one.sync_state_set_epoch,
            sync_state_set=as_brokers(1, 3),
        )
    )
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(1), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(2)
    assert held(world) == [1]
    world.run(3)
    assert answers
    assert held(world) == []


def test_a_promise_that_nobody_remembers_is_released_by_the_next_heartbeat() -> None:
    world = made()
    late = s.ProbedSet(
        replica_set_id=ReplicaSetId(1), leader_epoch=world.replica_set().leader_epoch
    )
    probe = s.ProbeSets(request_id=RequestId(0), controller_epoch=ControllerEpoch(1), sets=(late,))
    world.brokers[3].receive(probe, world.controllers[1])
    assert held(world) == [3]
    world.run(world.config.heartbeat_interval_ms + 10)
    assert held(world) == []
