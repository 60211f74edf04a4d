"""Masters whose log has failed: alive, heard of, and unable to lead."""

from dataclasses import replace

import pytest

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId, RequestId
from penstock.controller import session as s
from penstock.controller.active.context import Reported
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import decode_error
from penstock.controller.errors import NoEligibleMaster, TransferFailed
from penstock.controller.metadata.image import NO_MASTER
from tests.controller.world import World


def status_of(world: World, set_id: int = 1) -> s.SetStatus:
    (found,) = [
        replica_set
        for replica_set in world.active.status(RequestId(1)).sets
        if replica_set.replica_set_id == set_id
    ]
    return found


def test_a_master_whose_log_has_failed_is_replaced_and_leaves_the_sync_state_set() -> None:
    world = World()
    world.write(100)
    world.brokers[1].logs[1].has_failed = True
    world.run(1_100)
    one = world.replica_set()
    assert (one.master, one.leader_epoch) == (2, 1)
    assert (one.sync_state_set, one.last_cause) == ((2, 3), "log failed")
    assert world.active.stats.masterships["log failed"] == 1
    assert not world.image.brokers[BrokerId(1)].is_fenced
    assert [replica_set.master for replica_set in world.image.replica_sets.values()] == [2, 2, 3]
    world.run(20_000)
    assert world.replica_set() == one, "once"
    world.check_replay()


def test_all_sets_whose_logs_have_failed_together_change_masters_in_one_entry() -> None:
    world = World(directories=4)
    before = len(world.log)
    for log in world.brokers[1].logs.values():
        log.has_failed = True
    world.run(1_100)
    assert len(world.log) == before + 1
    assert all(replica_set.master in {2, 3} for replica_set in world.image.replica_sets.values())


def test_a_member_whose_log_has_failed_is_no_candidate() -> None:
    world = World()
    world.brokers[2].logs[1].has_failed = True
    world.brokers[1].kill()
    world.run(50)
    assert (world.replica_set().master, world.replica_set().sync_state_set) == (3, (3,))
    assert world.replica_set(2).master == 2


def test_with_nobody_else_in_step_nothing_changes_until_somebody_is() -> None:
    world = World(broker_count=2, factor=2)
    world.write(10)
    world.shrink(1)
    before = world.replica_set()
    world.brokers[1].logs[1].has_failed = True
    world.run(20_000)
    assert world.replica_set() == before
    assert status_of(world).master == 1
    assert "must answer" in status_of(world).reason
    assert status_of(world).members[0].role == "failed"
    log = world.brokers[1].logs[1]
    world.brokers[1].kill()
    log.has_failed = False
    world.brokers[1].start()
    world.run(200)
    assert (world.replica_set().master, world.replica_set().last_cause) == (1, "return")


def test_a_set_of_one_keeps_its_master() -> None:
    world = World(broker_count=1, factor=1)
    before = world.replica_set()
    world.brokers[1].logs[1].has_failed = True
    world.run(20_000)
    assert world.replica_set() == before


def test_with_failover_off_no_master_moves() -> None:
    world = World()
    world.ask(c.SetFailover(is_enabled=False))
    world.brokers[1].logs[1].has_failed = True
    world.run(20_000)
    assert world.replica_set().master == 1


def test_a_controller_that_becomes_active_finds_what_was_reported_before() -> None:
    world = World(controller_count=2)
    world.lead(2)
    world.is_log_stuck = True
    world.brokers[1].logs[1].has_failed = True
    world.run(1_100)
    assert world.replica_set().master == 1
    world.is_log_stuck = False
    world.lead(1)
    world.run(100)
    assert (world.replica_set().master, world.replica_set().last_cause) == (2, "log failed")


def test_the_word_of_an_earlier_mastership_changes_nothing() -> None:
    world = World()
    world.brokers[1].logs[1].has_failed = True
    world.run(1_100)
    assert world.replica_set().master == 2
    world.brokers[1].kill()
    world.brokers[1].logs[1].has_failed = False
    world.brokers[1].start()
    world.run(200)
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(5), replica_set_id=ReplicaSetId(1), target=BrokerId(1)
        )
    )
    world.run(20_000)
    assert isinstance(decode_error(answers[0].error), TransferFailed), "it is out of step"
    assert world.replica_set().master == 2


def test_a_log_that_had_failed_in_an_earlier_mastership_does_not_cost_the_present_one() -> None:
    world = World()
    for target in (2, 1):
        world.operate(
            s.TransferRequest(
                request_id=RequestId(5), replica_set_id=ReplicaSetId(1), target=BrokerId(target)
            )
        )
        world.run(200)
    led = world.replica_set()
    assert (led.master, led.leader_epoch) == (1, 2)
    # Its last word was of another mastership, and no heartbeat has come since it leads again.
    log = world.brokers[1].logs[1]
    log.has_failed = True
    failed = world.brokers[1].report(1)
    log.has_failed = False
    known = world.active._context.reports[BrokerId(1)]
    known[ReplicaSetId(1)] = Reported(replace(failed, leader_epoch=LeaderEpoch(0)), 0)
    world.active._look_soon()
    world.run(50)
    assert known[ReplicaSetId(1)].report.leader_epoch == 0
    assert world.replica_set() == led
    known[ReplicaSetId(1)] = Reported(failed, 0)
    world.active._look_soon()
    world.run(50)
    assert world.replica_set().master == 2


def test_a_master_that_fails_while_it_is_elected_is_replaced_in_turn() -> None:
    world = World()
    world.brokers[1].kill()
    world.run(2)  # probes are answered, the entry is on its way
    world.brokers[2].logs[1].has_failed = True
    world.run(1_200)
    assert (world.replica_set().master, world.replica_set().sync_state_set) == (3, (3,))


def test_a_failed_master_that_dies_is_evicted_as_any_other() -> None:
    world = World()
    world.brokers[1].logs[1].has_failed = True
    world.brokers[1]._heartbeat(world.controllers[1])
    world.brokers[1].kill()
    world.run(100)
    assert world.image.brokers[BrokerId(1)].is_fenced
    assert (world.replica_set().master, world.replica_set().sync_state_set) == (2, (2, 3))


def test_enough_of_the_others_must_answer_where_confirmed_records_are_on_some_members() -> None:
    world = World()
    policy = AckPolicy(kind=PolicyKind.QUORUM)
    world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=policy))
    world.write(10)
    world.brokers[3].kill()
    world.run(50)
    before = world.replica_set()
    world.brokers[1].logs[1].has_failed = True
    world.run(5_000)
    assert world.replica_set() == before, "broker 2 alone may lack what 1 and 3 hold"
    world.brokers[3].start()
    world.run(6_000)
    assert world.replica_set().master in {2, 3}


@pytest.mark.parametrize("is_unclean", [False, True])
def test_an_operator_may_elect_another_where_the_rules_find_nobody(is_unclean: bool) -> None:
    world = World(broker_count=2, factor=2)
    world.write(10)
    world.shrink(1)
    world.brokers[1].logs[1].has_failed = True
    world.run(10_000)
    request = s.ElectRequest(
        request_id=RequestId(5),
        replica_set_id=ReplicaSetId(1),
        master=BrokerId(2),
        is_unclean=is_unclean,
    )
    answers = world.operate(request)
    world.run(500)
    if is_unclean:
        assert not answers[0].error
        assert (world.replica_set().master, world.replica_set().sync_state_set) == (2, (2,))
    else:
        assert isinstance(decode_error(answers[0].error), NoEligibleMaster)
        assert world.replica_set().master == 1


def test_no_set_is_moved_to_or_from_a_member_whose_log_has_failed() -> None:
    world = World()
    world.brokers[2].logs[1].has_failed = True
    world.run(1_100)
    answers = world.operate(
        s.TransferRequest(
            request_id=RequestId(5), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
        )
    )
    world.run(50)
    error = decode_error(answers[0].error)
    assert isinstance(error, TransferFailed)
    assert "has failed" in str(error)
    assert world.replica_set().master not in {2, NO_MASTER}
