"""Long work takes turns: so much in each, and nobody waits behind somebody else's thousands."""

from collections import deque
from collections.abc import Callable

import pytest

from penstock.coordinator.outbox import Outbox
from penstock.coordinator.portions import PORTION, Portions, Steps

Turns = deque[Callable[[], None]]


class Loop:
    """Portions over turns that are given by hand; every step notes whose it is."""

    def __init__(self) -> None:
        self.turns: Turns = deque()
        self.portions = Portions(Outbox(), self.turns.append)
        self.done: list[str] = []

    def work(self, name: str, count: int, cost: int = 1) -> Steps:
        for _ in range(count):
            self.done.append(name)
            yield cost

    def begin(self, name: str, count: int, cost: int = 1) -> None:
        self.portions.begin(self.work(name, count, cost))

    def turn(self) -> list[str]:
        before = len(self.done)
        self.turns.popleft()()
        return self.done[before:]


def test_a_turn_has_a_portion_of_a_long_work() -> None:
    loop = Loop()
    loop.begin("long", 2 * PORTION + 1)
    assert len(loop.done) == PORTION
    assert len(loop.turn()) == PORTION
    assert len(loop.turn()) == 1
    assert not loop.turns


def test_what_a_step_costs_counts() -> None:
    loop = Loop()
    loop.begin("dear", PORTION, cost=PORTION // 4)
    assert len(loop.done) == 4
    assert len(loop.turn()) == 4


def test_works_that_begin_in_one_turn_share_it() -> None:
    loop = Loop()
    for number in range(2 * PORTION):
        loop.begin(str(number), 1)
    assert loop.done == [str(number) for number in range(PORTION)]
    assert loop.turn() == [str(number) for number in range(PORTION, 2 * PORTION)]


def test_works_that_begin_while_another_waits_for_its_turn_ask_for_no_turns_of_their_own() -> None:
    # Each turn that is asked for has a portion: ten of them in one turn of the loop are ten.
    loop = Loop()
    loop.begin("long", 2 * PORTION)
    for number in range(10):
        loop.begin(str(number), PORTION)
    assert len(loop.done) == PORTION
    assert len(loop.turns) == 1
    assert len(loop.turn()) == PORTION
    assert len(loop.turns) == 1


def test_a_small_work_does_not_wait_for_a_large_one_that_began_before_it() -> None:
    loop = Loop()
    loop.begin("large", 100 * PORTION)
    loop.begin("small", 1)
    assert "small" in loop.turn() + loop.turn()


def test_a_work_that_another_one_begins_is_part_of_the_same_turn() -> None:
    loop = Loop()

    def outer() -> Steps:
        yield 1
        loop.begin("inner", 2 * PORTION)
        yield 1

    loop.portions.begin(outer())
    assert loop.done == ["inner"] * (PORTION - 2)


def test_a_step_that_fails_ends_its_work_and_no_other() -> None:
    loop = Loop()
    loop.begin("before", PORTION)

    def fails() -> Steps:
        yield 1
        raise ZeroDivisionError

    loop.portions.begin(fails())
    loop.begin("after", 3)
    with pytest.raises(ZeroDivisionError):
        loop.turn()
    assert loop.turn() == ["after"] * 3
    assert not len(loop.portions)


def test_answers_of_a_portion_leave_when_it_ends() -> None:
    turns: Turns = deque()
    outbox = Outbox()
    portions = Portions(outbox, turns.append)
    got: list[int] = []
    queue = outbox.wrap(got.append)

    def answers() -> Steps:
        for number in range(2 * PORTION):
            queue(number)
            assert number not in got, "the state that caused it is not complete"
            yield 1

    portions.begin(answers())
    assert got == [*range(PORTION)]
    turns.popleft()()
    assert got == [*range(2 * PORTION)]


def test_without_turns_a_work_is_done_when_it_begins() -> None:
    loop = Loop()
    Portions(Outbox()).begin(loop.work("all", 10 * PORTION))
    assert len(loop.done) == 10 * PORTION
