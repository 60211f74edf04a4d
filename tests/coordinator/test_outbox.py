"""Answers wait until the state change that caused them is complete."""

from collections.abc import Callable

import pytest

from penstock.coordinator.outbox import TOGETHER, Outbox


def test_answers_leave_in_order_when_the_outermost_block_ends() -> None:
    outbox, told = Outbox(), list[int]()
    answer = outbox.wrap(told.append)
    with outbox.holding():
        answer(1)
        with outbox.holding():
            answer(2)
        assert told == []
    assert told == [1, 2]


def test_a_block_that_an_error_ends_sends_nothing_and_the_next_one_sends_what_it_queued() -> None:
    outbox, told = Outbox(), list[int]()
    answer = outbox.wrap(told.append)

    def fail() -> None:
        with outbox.holding():
            answer(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert told == []
    with outbox.holding():
        answer(2)
    assert told == [1, 2]


def test_what_an_answer_causes_is_sent_behind_those_that_were_queued() -> None:
    outbox, told = Outbox(), list[int]()
    answer = outbox.wrap(told.append)

    def again(number: int) -> None:
        with outbox.holding():
            answer(number + 10)
        assert told == []

    with outbox.holding():
        outbox.wrap(again)(1)
        answer(2)
    assert told == [2, 11]


@pytest.mark.parametrize("count", [TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER])
def test_a_turn_sends_so_many_answers_and_the_next_turn_goes_on(count: int) -> None:
    turns: list[Callable[[], None]] = []
    outbox, told = Outbox(turns.append), list[int]()
    answer = outbox.wrap(told.append)
    with outbox.holding():
        for number in range(count):
            answer(number)
    with outbox.holding():
        answer(count)  # does not overtake
    sent = [min(count + 1, TOGETHER) if count > TOGETHER else count + 1]
    assert len(told) == sent[0]
    while turns:
        assert len(turns) == 1
        turns.pop()()
        sent.append(min(count + 1, sent[-1] + TOGETHER))
        assert len(told) == sent[-1]
    assert told == [*range(count + 1)]


def test_without_later_turns_all_answers_are_sent_at_once() -> None:
    outbox, told = Outbox(), list[int]()
    answer = outbox.wrap(told.append)
    with outbox.holding():
        for number in range(3 * TOGETHER):
            answer(number)
    assert told == [*range(3 * TOGETHER)]
