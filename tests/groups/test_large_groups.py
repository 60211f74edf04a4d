"""A group of very many members takes many short turns, not a long one."""

from collections import deque
from collections.abc import Callable

import pytest

from penstock.groups.classic.rebalance import NAMED_MAX
from penstock.groups.coordinator import DUE_TOGETHER
from penstock.groups.outbox import TOGETHER, Outbox
from tests.groups.world import DELAY_MS, GROUP, REBALANCE_MS, World

LONG_SESSION_MS = 10 * REBALANCE_MS

Turns = deque[Callable[[], None]]


def test_many_answers_leave_in_several_turns_and_in_their_order() -> None:
    turns: Turns = deque()
    got: list[int] = []
    outbox = Outbox(turns.append)
    queue = outbox.wrap(got.append)
    with outbox.turn():
        for number in range(2 * TOGETHER + 1):
            queue(number)
    assert got == [*range(TOGETHER)]
    with outbox.turn():
        queue(2 * TOGETHER + 1)
    assert got == [*range(TOGETHER)], "who comes later waits behind those who wait"
    while turns:
        before = len(got)
        turns.popleft()()
        assert len(got) - before <= TOGETHER
    assert got == [*range(2 * TOGETHER + 2)]


def test_answers_that_lead_to_others_leave_in_short_turns_too() -> None:
    turns: Turns = deque()
    got: list[int] = []
    outbox = Outbox(turns.append)

    def ask_again(number: int) -> None:
        got.append(number)
        if number < 3 * TOGETHER:
            with outbox.turn():
                queue(number + 1)

    queue = outbox.wrap(ask_again)
    with outbox.turn():
        queue(0)
    assert len(got) == TOGETHER
    while turns:
        turns.popleft()()
    assert got == [*range(3 * TOGETHER + 1)]


def test_an_answer_that_fails_does_not_keep_the_others() -> None:
    turns: Turns = deque()
    got: list[int] = []

    def deliver(number: int) -> None:
        if not number:
            raise ZeroDivisionError
        got.append(number)

    outbox = Outbox(turns.append)
    queue = outbox.wrap(deliver)

    def answer_two() -> None:
        with outbox.turn():
            queue(0)
            queue(1)

    with pytest.raises(ZeroDivisionError):
        answer_two()
    turns.popleft()()
    assert got == [1]


def test_sessions_that_end_in_one_moment_end_in_several_ticks() -> None:
    world = World()
    count = 2 * DUE_TOGETHER + 10
    world.stable(count, session_ms=LONG_SESSION_MS, rebalance_ms=LONG_SESSION_MS)
    members = world.coordinator._table.groups[GROUP].members
    world.clock.now_ms += LONG_SESSION_MS
    world.coordinator.tick(world.clock.now_ms)
    assert count - DUE_TOGETHER <= len(members) < count
    due_ms = world.coordinator.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= world.clock.now_ms, "the rest is due at once"
    world.coordinator.tick(world.clock.now_ms)
    world.coordinator.tick(world.clock.now_ms)
    assert not members


def test_a_rebalance_that_thousands_held_up_names_a_few(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    first, *_ = world.stable(2 * NAMED_MAX, session_ms=LONG_SESSION_MS)
    world.join(first.member_id)
    caplog.clear()
    world.pass_ms(REBALANCE_MS + DELAY_MS)
    told = [one.message for one in caplog.records if "held up by" in one.message]
    assert len(told) == NAMED_MAX + 1
    assert told[-1].endswith(f"held up by {NAMED_MAX - 1} members more")
