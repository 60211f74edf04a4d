"""Calls are counted of what is measured, and of nothing that the collector of garbage runs."""

import gc
import weakref
from collections.abc import Callable

import uvloop

from tests.turn_calls import Turns, counted_calls


class _Left:
    """Something in a circle, which only a collection frees."""

    def __init__(self) -> None:
        self.own = self


def garbage_that_calls(count: int) -> list[object]:
    """Leave objects whose end calls a function each; return what listens to it."""
    heard: list[object] = []
    return [weakref.ref(_Left(), heard.append) for _ in range(count)]


def making_objects() -> None:
    """Enough of them for a collection to begin, and no call of a function but one."""
    kept: list[list[None]] = []
    for _ in range(100_000):
        kept += ([None],)


def counting() -> None:
    for _ in range(500):
        len("")


def counting_less() -> None:
    for _ in range(300):
        len("")


def _in_turn(run: Callable[[], None]) -> Turns:
    turns = Turns()

    def _run() -> None:
        turns.begin()
        run()
        turns.end()

    _run()
    return turns


def test_calls_of_collected_garbage_are_not_counted() -> None:
    gc.collect()
    listening = garbage_that_calls(1_000)
    assert counted_calls(making_objects)[1] < 100
    assert _in_turn(making_objects).longest < 100
    assert gc.isenabled()
    assert len(listening) == 1_000


def test_calls_of_what_is_measured_are_counted() -> None:
    assert counted_calls(counting)[1] > 500
    assert _in_turn(counting).longest > 500


def test_each_turn_is_counted_by_itself_and_the_longest_is_told() -> None:
    turns = Turns()

    def _run() -> None:
        loop = uvloop.new_event_loop()
        for step in (turns.begin, counting_less, counting, counting_less, turns.end, loop.stop):
            loop.call_soon(step)
        loop.run_forever()
        loop.close()

    _run()
    assert 500 < turns.longest < 600
    assert turns.begun_in == "counting"


def test_the_last_turn_is_counted_though_none_follows() -> None:
    turns = Turns()

    def last() -> None:
        counting()
        turns.end()

    def _run() -> None:
        loop = uvloop.new_event_loop()
        for step in (turns.begin, counting_less, last, loop.stop):
            loop.call_soon(step)
        loop.run_forever()
        loop.close()

    _run()
    assert 500 < turns.longest < 600
    assert turns.begun_in.endswith("last")
