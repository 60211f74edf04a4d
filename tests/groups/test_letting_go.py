"""A group whose partition moves away leaves nothing behind that is due later."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import DELAY_MS, GROUP, World, only


def join_twice(world: World) -> list[Any]:
    return [world.join(client=name) for name in ("a", "b")]


def wait_for_the_assignment(world: World) -> list[Any]:
    leader, follower = world.joined(2)
    world.journal.is_prompt = False
    return [world.sync(follower.member_id, 1), world.sync(leader.member_id, 1, {})]


def be_stable(world: World) -> list[Any]:
    world.stable(2)
    return []


def have_not_synced(world: World) -> list[Any]:
    world.joined(2)
    return []


def rebalance(world: World) -> list[Any]:
    world.stable(2)
    return [world.join(client="new")]


def hand_out_ids(world: World) -> list[Any]:
    for name in ("a", "b"):
        assert only(world.join(client=name, id_required=True)).member_id
    return []


@pytest.mark.parametrize(
    "situation",
    [
        join_twice, wait_for_the_assignment, be_stable, have_not_synced, rebalance, hand_out_ids,
    ],
)  # fmt: skip
def test_nothing_is_due_and_nobody_waits(situation: Callable[[World], list[Any]]) -> None:
    world = World()
    parked = situation(world)
    world.coordinator.runtime.unload(world.coordinator.partition_of(GROUP))
    assert not [key for key in world.coordinator._context.deadlines._due if key.group_id]
    assert not world.coordinator._context.newcomers
    assert [only(answers).error for answers in parked] == [ErrorCode.NOT_COORDINATOR] * len(parked)


@pytest.mark.parametrize("instance", [None, "one"])
@pytest.mark.parametrize("stays_stable", [False, True])
def test_a_member_that_joins_again_has_the_timeouts_that_it_asks_for_then(
    instance: str | None, stays_stable: bool
) -> None:
    world = World()
    member_id = only(world.stable(1, instance=instance)).member_id
    again = "" if instance is not None and stays_stable else member_id
    answers = world.join(
        again, instance=instance, client="c0", session_ms=20_000, rebalance_ms=40_000
    )
    world.pass_ms(DELAY_MS)
    reply = only(answers)
    (member,) = world.classic().members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 40_000)
    world.sync(reply.member_id, reply.generation, {}, instance=instance)
    world.pass_ms(19_999)
    assert world.classic().members
    world.pass_ms(1)
    assert not world.classic().members
