"""Answers wait until the state change that caused them is complete."""

import pytest

from penstock.coordinator.outbox import Outbox


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
