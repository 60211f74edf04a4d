"""Functions called in a turn of the loop: a measure of work that any machine agrees on.

No garbage is collected while calls are counted: what earlier tests left (a weak reference calls a
function when its object goes) has nothing to do with the turn that makes the collector run. The
clock of slices stands still: what only the clock ends on this machine is longer on a quicker one.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TypeVar
from unittest import mock

from penstock.broker import turns

CALLS_MAX = 15_000
"""In one turn: some 2 ms. The longest request, DescribeGroups, comes to four fifths of it."""

T = TypeVar("T")


def counted_calls(run: Callable[[], T]) -> tuple[T, int]:
    """Return what a function returns, and how many calls it took."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    with without_collections():
        sys.setprofile(count)
        try:
            found = run()
        finally:
            sys.setprofile(None)
    return found, calls


@contextmanager
def without_collections() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _still(_: turns.Turns) -> int:
    return 0


class Turns:
    """Counts the calls of every turn of the loop whose thread it watches."""

    def __init__(self) -> None:
        self.longest = 0
        self.begun_in = ""
        self._quiet = ExitStack()

    def begin(self) -> None:
        """Call from a callback of the loop."""
        frame = sys._getframe()
        while frame.f_back is not None and frame.f_code.co_name != "_run":
            frame = frame.f_back
        self._quiet.enter_context(without_collections())
        self._quiet.enter_context(mock.patch.object(turns.Turns, "now_us", _still))
        sys.setprofile(self._counting(frame))

    def end(self) -> None:
        sys.setprofile(None)
        self._quiet.close()

    def _counting(self, loop: FrameType) -> Callable[[FrameType, str, object], None]:
        """What counts on the loop of this frame; it runs twice for each call, and does little."""
        calls, name = 0, ""

        def is_over() -> None:
            if calls > self.longest:
                self.longest, self.begun_in = calls, name

        def count(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal calls, name
            if event == "c_call":
                calls += 1
            elif event == "call":
                if frame.f_back is loop:
                    is_over()
                    calls, name = 0, frame.f_code.co_qualname
                calls += 1

        self._quiet.callback(is_over)
        return count
