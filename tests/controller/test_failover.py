"""Failover as the active controller does it, in virtual time."""

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId, RequestId, SessionId
from penstock.controller import session as s
from penstock.controller.commands import command as c
from penstock.controller.commands.codec import decode_error
from penstock.controller.errors import (
    NoEligibleMaster,
    NotActiveController,
    StaleLeaderEpoch,
)
from penstock.controller.metadata.image import NO_MASTER
from tests.controller.world import World


def test_a_set_per_broker_is_made_and_led_by_its_preferred_master() -> None:
    world = World()
    sets = world.image.replica_sets
    assert {key: one.replicas for key, one in sets.items()} == {
        1: (1, 2, 3),
        2: (2, 3, 1),
        3: (3, 1, 2),
    }
    assert [replica_set.master for replica_set in sets.values()] == [1, 2, 3]
    assert all(replica_set.sync_state_set == (1, 2, 3) for replica_set in sets.values())
    assert all(replica_set.last_cause == "first" for replica_set in sets.values())
    world.check_replay()


def test_no_set_is_made_while_fewer_brokers_are_there_than_replicas_are_asked_for() -> None:
    world = World(is_started=False)
    world.brokers[1].start()
    world.brokers[2].start()
    world.run(10_000)
    assert not world.image.replica_sets
    world.brokers[3].start()
    world.run(200)
    assert [replica_set.master for replica_set in world.image.replica_sets.values()] == [1, 2, 3]


def test_a_broker_that_is_registered_before_its_session_is_heard_has_the_timeout_for_it() -> None:
    world = World(settings={"session_timeout_ms": 5_000})
    world.ask(c.RegisterBroker(broker_id=BrokerId(4), host="h", port=9092, incarnation="new"))
    world.run(4_900)
    assert not world.image.brokers[BrokerId(4)].is_fenced
    world.run(1_000)
    assert world.image.brokers[BrokerId(4)].is_fenced


def test_a_killed_master_is_replaced_at_once_by_a_member_in_step() -> None:
    world = World()
    world.write(100)
    world.brokers[1].kill()
    world.run(50)
    one = world.replica_set()
    assert (one.master, one.sync_state_set, one.last_cause) == (2, (2, 3), "eviction")
    assert world.image.brokers[BrokerId(1)].is_fenced
    assert world.active.stats.evictions == 1
    assert world.active.stats.elect_ms_max <= 20
    world.check_replay()


def test_all_sets_of_one_failure_change_masters_in_one_entry() -> None:
    world = World(broker_count=3, factor=3, directories=4)
    before = len(world.log)
    world.brokers[1].kill()
    world.run(50)
    assert len(world.log) == before + 1
    assert all(replica_set.master in {2, 3} for replica_set in world.image.replica_sets.values())


def test_a_member_that_was_still_reading_its_log_when_asked_leads_as_soon_as_it_has() -> None:
    world = World(broker_count=1, factor=1)
    broker = world.brokers[1]
    broker.kill()
    world.run(50)
    broker.is_opening = True
    broker.start()
    world.run(100)
    assert not world.image.brokers[BrokerId(1)].is_fenced
    assert world.replica_set().master == NO_MASTER
    broker.open_logs()
    world.run(5)
    assert world.replica_set().master == 1


def test_heartbeats_that_name_what_is_known_start_no_election() -> None:
    world = World(broker_count=1, factor=1)
    broker = world.brokers[1]
    broker.kill()
    broker.logs[1].has_failed = True
    broker.start()
    world.run(50)
    tried = world.active.stats.elections_without_winner
    for _ in range(20):
        broker.open_logs()
    world.run(5)
    assert world.active.stats.elections_without_winner == tried


def test_a_hung_master_is_replaced_after_the_session_timeout_and_not_before() -> None:
    world = World()
    world.brokers[1].is_hung = True
    world.run(4_000)
    assert world.replica_set().master == 1
    world.run(2_000)
    assert world.replica_set().master == 2


def test_two_failovers_in_a_second_leave_the_last_member_in_step_as_master() -> None:
    world = World()
    world.write(10)
    world.brokers[1].kill()
    world.run(30)
    world.write(10)
    world.brokers[2].kill()
    world.run(30)
    assert [replica_set.master for replica_set in world.image.replica_sets.values()] == [3, 3, 3]
    assert world.replica_set().sync_state_set == (3,)


def test_one_member_in_step_of_five_takes_over() -> None:
    world = World(broker_count=5, factor=5)
    for one in (1, 2, 3, 4):
        world.brokers[one].kill()
    world.run(100)
    assert {replica_set.master for replica_set in world.image.replica_sets.values()} == {5}


def test_a_set_of_two_fails_over() -> None:
    world = World(broker_count=2, factor=2)
    world.brokers[1].kill()
    world.run(50)
    assert world.replica_set().master == 2


def test_a_winner_that_dies_while_its_election_commits_is_replaced_in_turn() -> None:
    world = World()
    world.brokers[1].kill()
    world.run(2)  # probes are answered, the entry is on its way
    world.brokers[2].kill()
    world.run(100)
    assert world.replica_set().master == 3


def test_a_member_out_of_step_is_never_elected_and_the_set_waits_for_one_in_step() -> None:
    world = World(broker_count=2, factor=2)
    world.write(10)
    world.shrink(1)
    world.brokers[1].kill()
    world.run(20_000)
    assert world.replica_set().master == NO_MASTER
    assert world.replica_set().sync_state_set == (1,)
    (status,) = [
        replica_set
        for replica_set in world.active.status(RequestId(1)).sets
        if replica_set.replica_set_id == 1
    ]
    assert "must answer" in status.reason
    world.brokers[1].start()
    world.run(200)
    assert world.replica_set().master == 1
    assert world.replica_set().last_cause == "return"


def test_unclean_election_only_where_the_set_allows_it_and_then_it_says_what_was_cut() -> None:
    world = World(broker_count=2, factor=2)
    world.write(10)
    world.shrink(1)
    world.write(90)
    world.run(1_100)
    world.ask(c.SetUncleanElection(replica_set_id=ReplicaSetId(1), is_allowed=True))
    world.brokers[1].kill()
    world.run(100)
    one = world.replica_set()
    assert (one.master, one.sync_state_set) == (2, (2,))
    assert (one.last_cause, one.last_detail) == (
        "unclean",
        "broker 2 ends at 10 in epoch 0; the longest log reported ended at 100 in epoch 0",
    )
    assert one.unclean_epoch == one.leader_epoch
    assert world.active.stats.masterships["unclean"] == 1


def test_operator_elects_uncleanly_where_nobody_in_step_is_left() -> None:
    world = World(broker_count=2, factor=2)
    world.shrink(1)
    world.brokers[1].kill()
    world.run(100)
    refused = world.operate(s.ElectRequest(request_id=RequestId(1), replica_set_id=ReplicaSetId(1)))
    world.run(1_000)
    assert isinstance(decode_error(refused[0].error), NoEligibleMaster)
    done = world.operate(
        s.ElectRequest(request_id=RequestId(2), replica_set_id=ReplicaSetId(1), is_unclean=True)
    )
    world.run(1_000)
    assert done[0].text == "Broker 2 is master of replica set 1 in leader epoch 2."


def test_an_operator_elects_whom_it_names_also_while_failover_is_off() -> None:
    world = World()
    world.ask(c.SetFailover(is_enabled=False))
    world.brokers[1].kill()
    world.run(1_000)
    assert world.replica_set().master == 1, "nobody takes over by itself"
    done = world.operate(
        s.ElectRequest(request_id=RequestId(1), replica_set_id=ReplicaSetId(1), master=BrokerId(3))
    )
    world.run(1_000)
    assert world.replica_set().master == 3
    assert [one.error for one in done] == [b""]


def test_the_longest_log_wins_over_the_preferred_order() -> None:
    world = World()
    world.brokers[3].logs[1].epoch, world.brokers[3].logs[1].end = 0, 7
    world.brokers[1].kill()
    world.run(50)
    assert world.replica_set().master == 3


def test_a_candidate_that_hangs_delays_an_election_by_the_probe_timeout_only() -> None:
    world = World()
    world.brokers[2].is_hung = True
    world.brokers[1].kill()
    world.run(290)
    assert world.replica_set().master == 1
    world.run(30)
    assert (world.replica_set().master, world.replica_set().sync_state_set) == (3, (3,))


def test_a_restarted_master_leads_nothing_until_it_is_elected_again() -> None:
    world = World(broker_count=1, factor=1)
    assert world.replica_set().leader_epoch == 0
    world.brokers[1].kill()
    world.run(100)
    assert world.replica_set().master == NO_MASTER
    world.brokers[1].start()
    world.run(100)
    assert (world.replica_set().master, world.replica_set().leader_epoch) == (1, 2)


def test_a_process_that_took_the_place_of_the_registered_one_leads_under_a_new_epoch() -> None:
    world = World()
    broker = world.brokers[1]
    broker.starts += 1  # an exec: no connection was seen closing
    broker.reconnect()
    world.run(100)
    assert world.replica_set().leader_epoch > 0
    assert world.replica_set().master != NO_MASTER
    assert world.image.brokers[BrokerId(1)].incarnation == broker.incarnation
    assert not world.image.brokers[BrokerId(1)].is_fenced


def test_a_master_that_comes_back_with_an_empty_log_is_not_elected() -> None:
    world = World(broker_count=2, factor=2)
    world.write(50)
    world.shrink(1)
    world.brokers[1].kill()
    world.run(100)
    world.brokers[1].logs.clear()
    world.brokers[1].start()
    world.run(2_000)
    one = world.replica_set()
    assert (one.master, one.sync_state_set) == (NO_MASTER, ())
    assert one.replica_ids[BrokerId(1)] > 2
    world.check_replay()


def test_a_slave_that_lost_its_log_leaves_the_sync_state_set() -> None:
    world = World()
    world.write(50)
    world.brokers[2].kill()
    world.brokers[2].logs.clear()
    world.brokers[2].start()
    world.run(200)
    assert world.replica_set().sync_state_set == (1, 3)


def test_an_evicted_broker_that_was_only_cut_off_registers_again_and_is_not_fenced() -> None:
    world = World()
    broker = world.brokers[1]
    broker.disconnect()
    world.run(100)
    assert world.image.brokers[BrokerId(1)].is_fenced
    broker.reconnect()
    world.run(2_000)
    assert not world.image.brokers[BrokerId(1)].is_fenced
    assert world.image.brokers[BrokerId(1)].broker_epoch > 3


def test_the_old_masters_word_on_its_sync_state_set_is_refused_after_a_failover() -> None:
    world = World()
    old = world.replica_set()
    world.brokers[1].disconnect()
    world.run(100)
    answer = world.ask(
        c.ChangeSyncStateSet(
            replica_set_id=ReplicaSetId(1),
            master=BrokerId(1),
            leader_epoch=old.leader_epoch,
            sync_state_set_epoch=old.sync_state_set_epoch,
            sync_state_set=as_brokers(1),
        )
    )
    assert isinstance(answer, StaleLeaderEpoch)


def test_late_close_and_late_heartbeat_of_an_older_session_change_nothing() -> None:
    # RocketMQ #11045 and #11046: a stale close evicted the live master.
    world = World()
    old_session = world.brokers[1].sessions[1]
    world.brokers[1].reconnect()
    world.active.on_session_closed(BrokerId(1), SessionId(old_session))
    world.run(2_000)
    assert world.replica_set().master == 1
    late = s.Heartbeat(
        session_id=SessionId(old_session), broker_id=BrokerId(1), incarnation="other"
    )
    assert world.active.on_heartbeat(BrokerId(1), late) is None
    world.run(2_000)
    assert world.replica_set().master == 1


def test_new_active_controller_finishes_what_its_predecessor_left_undone() -> None:
    # RocketMQ #5009, #5712, #8380, #9717: elections lost with a failed trigger.
    world = World(controller_count=3)
    world.is_log_stuck = True
    world.brokers[1].kill()
    world.run(1_000)
    assert world.replica_set().master == 1
    world.is_log_stuck = False
    world.stop_controller(1)
    world.lead(2)
    world.run(100)
    assert (world.replica_set().master, world.replica_set().sync_state_set) == (2, (2, 3))


def test_controller_and_master_that_die_together_are_both_replaced() -> None:
    world = World(controller_count=3)
    world.brokers[1].kill()
    world.stop_controller(1)
    world.run(300)
    world.lead(3)
    world.run(50)
    assert world.replica_set().master == 2


def test_after_a_controller_failover_nobody_is_evicted_before_a_full_timeout() -> None:
    # The new controller has never heard of anybody: its sessions come up late.
    world = World(controller_count=2)
    for broker in world.brokers.values():
        broker.sessions.pop(2)
    fresh = world.controllers[2] = world._process(2)
    world.stop_controller(1)
    world._catch_up(fresh)
    world.lead(2)
    world.run(4_000)
    for broker in (world.brokers[1], world.brokers[2]):
        broker.connect(fresh)
    world.run(500)
    assert world.replica_set().master == 1
    assert not any(one.is_fenced for one in world.image.brokers.values())
    world.run(2_000)
    assert [key for key, one in world.image.brokers.items() if one.is_fenced] == [3]


def test_a_controller_that_was_itself_stopped_evicts_nobody_when_it_wakes() -> None:
    world = World()
    world.time.now += 60_000  # nothing ran: this process was stopped
    world.run(50)
    assert world.replica_set().master == 1
    assert not any(broker.is_fenced for broker in world.image.brokers.values())


def test_a_lost_submit_is_tried_again_on_a_bounded_schedule() -> None:
    world = World()
    world.is_log_stuck = True
    world.brokers[1].kill()
    before = len(world.commands)
    world.run(10_000)
    assert 10 <= len(world.commands) - before <= 30
    world.is_log_stuck = False
    world.run(1_000)
    assert world.replica_set().master == 2


def test_a_masterless_set_is_probed_ever_less_often() -> None:
    world = World(broker_count=2, factor=2)
    world.shrink(1)
    world.brokers[1].kill()
    world.run(60_000)
    assert world.active.stats.elections_without_winner < 30


def test_a_controller_that_is_not_active_decides_nothing_and_says_who_is() -> None:
    world = World(controller_count=2)
    answers: list[s.OperationAnswer] = []
    request = s.TransferRequest(
        request_id=RequestId(9), replica_set_id=ReplicaSetId(1), target=BrokerId(2)
    )
    world.controllers[2].active.on_operation(request, answers.append)
    error = decode_error(answers[0].error)
    assert isinstance(error, NotActiveController)
    assert error.controller_id == 1
    assert world.controllers[2].active.status(RequestId(1)).controller.active_id == 1


def test_with_failover_off_no_mastership_moves_and_the_fixed_master_returns() -> None:
    world = World(settings={"preferred_master_delay_ms": 0})
    world.ask(c.SetFailover(is_enabled=False))
    world.brokers[1].kill()
    world.run(20_000)
    assert world.replica_set().master == 1
    assert not world.image.brokers[BrokerId(1)].is_fenced
    world.brokers[1].start()
    world.run(1_000)
    assert (world.replica_set().master, world.replica_set().leader_epoch) == (1, 2)
    world.brokers[1].kill()
    world.ask(c.SetFailover(is_enabled=True))
    world.run(100)
    assert world.replica_set().master == 2


@pytest.mark.parametrize("kind", ["k-of-n", "quorum"])
def test_where_two_of_three_confirm_two_must_answer_and_the_longer_log_wins(kind: str) -> None:
    world = World(settings={"preferred_master_delay_ms": -1})
    policy = AckPolicy(kind=PolicyKind(kind), required=2)
    assert world.ask(c.SetAckPolicy(replica_set_id=ReplicaSetId(1), policy=policy)) is None
    world.shrink(1, 3)
    log = world.brokers[3].logs[1]
    log.epoch, log.end = 0, 500  # confirmed by 1 and 3; 2 lags
    world.brokers[1].kill()
    world.run(500)
    assert (world.replica_set().master, world.replica_set().sync_state_set) == (3, (3,))
    world.brokers[3].kill()
    world.run(5_000)
    assert world.replica_set().master == NO_MASTER  # 2 alone may lack records
