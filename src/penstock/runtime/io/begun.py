"""Runs a coroutine up to its first wait at once, and the rest of it as a task.

    begin ─► first step, within the caller ─► done
                  └─ waits ─► a task waits for the same future, and continues

The first step of an ordinary task runs in a later loop iteration, together with those of all tasks
created meanwhile, so that their cost is not accounted to anyone. Here it is accounted to the
caller.

Source: PEP 3156; asyncio, "Extending" (what a task has to do around a step); eager tasks of
Python 3.12.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any


class _Begun(Coroutine[Any, Any, None]):
    """The rest of a coroutine after its first step."""

    __slots__ = ("_error", "_is_over", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._waits_for: list[Any] = []
        """The future that the first step waits for, until the task has received it."""
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
            return self.send(None)  # it had ended before the task was cancelled
        self._waits_for.clear()
        return self._work.throw(kind)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("a task runs it")


def begin(name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Run a coroutine to its first wait; return a task that continues it, or ends soon.

    An exception of the first step is raised by the task. `asyncio.current_task` works in the first
    step, as time-outs need it, whether or not the caller is a task.
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
