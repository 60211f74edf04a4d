"""Plans that level masterships are judged by rules of their own, which a wrong plan breaks."""

from dataclasses import replace

import pytest

from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaId, ReplicaSetId
from penstock.cli.leader_plan import LeaderPlan, Move, plan_leaders
from penstock.controller.session import MemberStatus, StatusAnswer
from simulator.faults import upkeep
from simulator.faults.upkeep import settings_on_trial, wrong_with
from tests.cli.test_leader_plan import broker, led, status

SETS = [led(1, 1, (1, 2), 4), led(2, 1, (1, 2), 2), led(3, 1, (1,), 2)]
STATUS = status([broker(1), broker(2)], SETS)
BEFORE = {BrokerId(1): 8, BrokerId(2): 0}


def test_the_plan_of_the_command_is_found_right() -> None:
    assert plan_leaders(STATUS).moves
    assert wrong_with(plan_leaders(STATUS), STATUS) == []


@pytest.mark.parametrize(
    ("moves", "after", "told"),
    [
        (
            (Move(ReplicaSetId(3), BrokerId(1), BrokerId(2), 2),),
            {BrokerId(1): 6, BrokerId(2): 2},
            "to a member in step",
        ),
        (
            (Move(ReplicaSetId(1), BrokerId(2), BrokerId(1), 4),),
            {BrokerId(1): 12, BrokerId(2): -4},
            "not from the master",
        ),
        (
            (
                Move(ReplicaSetId(1), BrokerId(1), BrokerId(2), 4),
                Move(ReplicaSetId(1), BrokerId(1), BrokerId(2), 4),
            ),
            {BrokerId(1): 0, BrokerId(2): 8},
            "moved before",
        ),
        (
            (Move(ReplicaSetId(1), BrokerId(1), BrokerId(2), 8),),
            {BrokerId(1): 0, BrokerId(2): 8},
            "levels nothing",
        ),
        (
            (Move(ReplicaSetId(1), BrokerId(1), BrokerId(2), 4),),
            {BrokerId(1): 8, BrokerId(2): 4},
            "is said",
        ),
    ],
)
def test_a_wrong_plan_is_found(
    moves: tuple[Move, ...], after: dict[BrokerId, int], told: str
) -> None:
    found = wrong_with(LeaderPlan(moves, BEFORE, after), STATUS)
    assert any(told in text for text in found), found


def member(broker_id: int) -> MemberStatus:
    return MemberStatus(
        broker_id=BrokerId(broker_id),
        replica_id=ReplicaId(1),
        is_live=True,
        is_in_sync=True,
        role="slave",
        leader_epoch=LeaderEpoch(1),
        last_log_epoch=LeaderEpoch(1),
        log_start_position=0,
        log_end_position=0,
        confirm_position=0,
        lag_bytes=0,
        caught_up_ms_ago=0,
        reported_ms_ago=0,
    )


def test_members_on_one_machine_that_nobody_names_are_found(monkeypatch) -> None:
    one = replace(SETS[0], members=(member(1), member(2)))
    brokers = [replace(broker(key), machine="m", rack="r") for key in (1, 2)]
    told: StatusAnswer = status(brokers, [one])
    assert wrong_with(plan_leaders(told), told) == []
    monkeypatch.setattr(upkeep, "conflicts", lambda *_: iter(()))
    assert "nobody is told" in wrong_with(plan_leaders(told), told)[0]


def test_what_is_asked_on_trial_changes_nothing() -> None:
    commands = [command for _, command in settings_on_trial()]
    assert all(getattr(command, "validate_only", False) for command in commands)
    assert {is_right for is_right, _ in settings_on_trial()} == {True, False, None}
