"""Memory that CPython keeps is freed, and not too often."""

import gc
import sys
import weakref

import pytest

from penstock.base.memory import REST, TRAVERSED_MAX, FreeLists


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


def test_many_objects_are_not_gone_through_and_free_lists_are_cleared_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full collection held the loop for 135 ms where thousands of topics were created."""
    lists = FreeLists(Clock(1))
    blocks, node = sys.getallocatedblocks(), Node()
    gc.collect()  # the node is old now
    gone, full = weakref.ref(node), 0
    del node

    def noted(phase: str, info: dict[str, int]) -> None:
        nonlocal full
        full += phase == "stop" and info["generation"] == 2

    gc.callbacks.append(noted)
    try:
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks + 2 * TRAVERSED_MAX)
        young = weakref.ref(Node())
        assert lists.free()
        assert full == 1, "which clears the free lists"
    finally:
        gc.callbacks.remove(noted)
    assert gone() is not None, "it was not gone through"
    assert young() is None
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gone() is None
