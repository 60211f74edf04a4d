"""Memory that CPython keeps is freed, and not too often."""

import weakref

from penstock.runtime.io.memory import REST, FreeLists


class Clock:
    """Each look at it takes so long."""

    def __init__(self, step_us: int) -> None:
        self.us = 0
        self.step_us = step_us

    def __call__(self) -> int:
        self.us += self.step_us
        return self.us


class Node:
    """Holds itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_holds_itself_is_freed() -> None:
    gone = weakref.ref(Node())
    assert FreeLists(Clock(1)).free()
    assert gone() is None


def test_the_next_collection_waits_for_a_thousand_times_as_long_as_the_last_one_took() -> None:
    clock = Clock(5)
    lists = FreeLists(clock)
    assert lists.free()
    ended = clock.us
    clock.us = ended + REST * 5 - 6
    assert not lists.free()
    assert lists.free()


def test_a_collection_that_takes_no_time_that_can_be_measured_is_not_the_last() -> None:
    lists = FreeLists(Clock(0))
    assert lists.free()
    assert lists.free()
