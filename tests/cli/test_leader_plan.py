"""The plan that spreads masterships over brokers."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    PeerId,
    RequestId,
    SyncStateSetEpoch,
)
from penstock.cli.leader_plan import plan_leaders, weight_of
from penstock.controller.session import BrokerStatus, ControllerStatus, SetStatus, StatusAnswer


def broker(broker_id, *, is_live=True, is_fenced=False, is_draining=False):
    return BrokerStatus(
        broker_id=broker_id,
        host="h",
        port=1,
        ha_host="h",
        ha_port=2,
        rack="",
        broker_epoch=BrokerEpoch(1),
        is_live=is_live,
        is_fenced=is_fenced,
        is_draining=is_draining,
        heard_ms_ago=0,
        master_count=0,
        replica_count=0,
    )


def led(set_id, master, in_step, partitions):
    return SetStatus(
        replica_set_id=set_id,
        policy_kind="all",
        policy_required=1,
        policy_minimum=1,
        master=master,
        leader_epoch=LeaderEpoch(1),
        cause="first",
        since_ms=0,
        preferred_master=master,
        sync_state_set=tuple(in_step),
        sync_state_set_epoch=SyncStateSetEpoch(1),
        partition_count=partitions,
        is_unclean_allowed=False,
        is_electing=False,
        reason="",
        members=(),
    )


def status(brokers, sets):
    controller = ControllerStatus(
        answered_by=1,
        active_id=PeerId(1),
        controller_epoch=ControllerEpoch(1),
        is_failover_enabled=True,
    )
    return StatusAnswer(
        request_id=RequestId(1),
        cluster_id="c",
        controller=controller,
        brokers=tuple(brokers),
        sets=tuple(sets),
    )


def moves(brokers, sets):
    found = plan_leaders(status(brokers, sets)).moves
    return [(one.replica_set_id, one.source, one.target) for one in found]


def test_a_broker_that_was_added_takes_from_those_that_lead_most():
    brokers = [broker(1), broker(2), broker(3)]
    sets = [
        led(1, 1, (1, 2, 3), 20),
        led(2, 1, (1, 2, 3), 20),
        led(3, 2, (2, 1, 3), 20),
        led(4, 2, (2, 1, 3), 20),
    ]
    plan = plan_leaders(status(brokers, sets))
    assert plan.before == {1: 40, 2: 40, 3: 0}
    assert plan.after == {1: 20, 2: 40, 3: 20}
    assert [(move.source, move.target) for move in plan.moves] == [(1, 3)]


def test_a_level_cluster_is_left_alone():
    brokers = [broker(1), broker(2)]
    assert moves(brokers, [led(1, 1, (1, 2), 5), led(2, 2, (1, 2), 5)]) == []


def test_a_move_that_would_only_change_places_is_not_made():
    assert moves([broker(1), broker(2)], [led(1, 1, (1, 2), 9)]) == []


def test_members_out_of_step_dead_fenced_or_drained_take_nothing():
    sets = [led(number, 1, (1, 2, 3, 4), 10) for number in range(4)]
    unable = [broker(2, is_live=False), broker(3, is_fenced=True), broker(4, is_draining=True)]
    assert moves([broker(1), *unable], sets) == []
    behind = [led(number, 1, (1,), 10) for number in range(4)]
    assert moves([broker(1), broker(2)], behind) == []


def test_sets_without_a_master_are_not_moved():
    sets = [led(1, -1, (1, 2), 10), led(2, 1, (1, 2), 10)]
    assert moves([broker(1), broker(2)], sets) == []


@given(st.data())
def test_every_move_leaves_its_two_brokers_with_less_at_most_and_no_set_moves_twice(data):
    ids = list(range(1, data.draw(st.integers(1, 6)) + 1))
    sets = []
    for set_id in range(data.draw(st.integers(0, 12))):
        in_step = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
        master = data.draw(st.sampled_from(in_step))
        sets.append(led(set_id, master, in_step, data.draw(st.integers(0, 50))))
    plan = plan_leaders(status([broker(one) for one in ids], sets))
    loads, by_id = (
        dict(plan.before),
        {replica_set.replica_set_id: replica_set for replica_set in sets},
    )
    assert len({one.replica_set_id for one in plan.moves}) == len(plan.moves)
    for move in plan.moves:
        moved = by_id[move.replica_set_id]
        assert (move.source, move.weight) == (moved.master, weight_of(moved))
        assert move.target in moved.sync_state_set
        worst = max(loads[move.source], loads[move.target])
        loads[move.source] -= move.weight
        loads[move.target] += move.weight
        assert max(loads[move.source], loads[move.target]) < worst
    assert loads == plan.after
    assert sum(plan.before.values()) == sum(plan.after.values())
