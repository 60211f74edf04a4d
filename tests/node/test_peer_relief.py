"""What long messages of peers took goes back to the system once they are over."""

from collections.abc import Callable
from typing import Any, cast

from penstock.base.ports import Lane
from penstock.net.peer_measure import FrameTurns
from penstock.node.peer_relief import PAUSE_MS, RELIEF_BYTES, PeerRelief


class World:
    """A scheduler and workers of a process, and free lists that may be cleared or not."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Callable[[], None]]] = []
        self.lanes: list[Lane] = []
        self.is_ready = True
        self.frames = FrameTurns()
        self.relief = PeerRelief(self.frames, *(cast("Any", self),) * 3)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> "World":
        self.calls.append((delay_ms, callback))
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def free(self) -> bool:
        return self.is_ready

    def submit(self, work: Callable[[], object], done: object, lane: Lane) -> None:
        self.lanes.append(lane)

    def pass_a_second(self) -> None:
        (delay_ms, callback), *self.calls = self.calls
        assert delay_ms == PAUSE_MS
        callback()


def test_memory_is_given_back_a_second_after_the_last_of_many_long_frames() -> None:
    world = World()
    world.frames.note_long(RELIEF_BYTES)
    world.frames.note_long(1)
    assert len(world.calls) == 1
    world.frames.note_long(1)
    world.pass_a_second()
    assert world.lanes == [], "another one has come meanwhile"
    world.pass_a_second()
    assert world.lanes == [Lane.READ], "nobody's sync waits for it"
    assert world.calls == []


def test_a_few_long_frames_are_not_worth_it() -> None:
    world = World()
    world.frames.note_long(RELIEF_BYTES - 1)
    assert world.calls == []
    world.frames.note_long(1)
    world.pass_a_second()
    world.frames.note_long(RELIEF_BYTES - 1)
    assert world.calls == [], "those before are not counted again"


def test_what_can_not_be_freed_so_soon_is_freed_later() -> None:
    world = World()
    world.is_ready = False
    world.frames.note_long(RELIEF_BYTES)
    world.pass_a_second()
    assert world.lanes == []
    world.is_ready = True
    world.pass_a_second()
    assert len(world.lanes) == 1


def test_a_process_that_stops_looks_no_more() -> None:
    world = World()
    world.frames.note_long(RELIEF_BYTES)
    world.relief.stop()
    world.frames.note_long(RELIEF_BYTES)
    assert world.calls == []
