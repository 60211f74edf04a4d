"""A coroutine that runs to its first wait at once, and goes on from there as a task.

    begin ─► first step, in the caller's turn ─► over
                      └─ waits ─► the task waits for the same, and goes on

A task's first step runs in a later turn, with those of all others that were made meanwhile, and
nobody has counted them. What is begun here is counted by its caller.

Source: PEP 3156; asyncio, "Extending" (what a task has to do around a step); eager tasks of
Python 3.12.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any


class _Begun(Coroutine[Any, Any, None]):
    """What is left of a coroutine after its first step."""

    __slots__ = ("_error", "_is_over", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._waits_for: list[Any] = []
        """What the first step waits for, until the task has been told."""
        self._is_over = False
        self._error: BaseException | None = None

    def take_first_step(self) -> None:
        try:
            self._waits_for.append(self._work.send(None))
        except StopIteration:
            self._is_over = True
        except BaseException as error:  # noqa: BLE001  the task raises it, where it is looked at
            self._is_over = True
            self._error = error

    def send(self, value: Any) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._is_over:
            raise StopIteration
        if self._waits_for:
            return self._waits_for.pop()
        return self._work.send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        if self._is_over:
            return self.send(None)  # it was over before the task was told to end
        self._waits_for.clear()
        return self._work.throw(kind)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("a task runs it")


def begin(name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Run a coroutine to its first wait; return the task that goes on with it, or is over soon.

    What it raises in the first step the task raises, too. It may ask for the current task, as
    time-outs do, also where the caller is a task or none.
    """
    loop = asyncio.get_running_loop()
    begun = _Begun(work)
    task = loop.create_task(begun, name=name)
    outer = asyncio.current_task()
    if outer is not None:
        _leave_task(loop, outer)
    _enter_task(loop, task)
    try:
        begun.take_first_step()
    finally:
        _leave_task(loop, task)
        if outer is not None:
            _enter_task(loop, outer)
    return task
