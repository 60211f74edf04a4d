"""Handles that know their process, and tasks with a fixed hash, for the simulated loop.

A set of tasks (asyncio.wait makes one) is iterated in the order of hashes. The default hash is an
address and differs from run to run; here it is a serial number.

The order in which handles run is decided in loop.py.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from simulator.kernel.ports import TimerLoop
from simulator.kernel.process import PROCESS, Process, process_of


class SimHandle(asyncio.TimerHandle):
    """A callback with its context and process; `at_s` is loop time, negative for `call_soon`.

    It replaces what its base class keeps: building and running one is the hot path of a run.
    """

    __slots__ = ("args", "at_s", "callback", "context", "is_cancelled", "process", "sim_loop")

    def __init__(
        self,
        sim_loop: TimerLoop,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        at_s: float = -1.0,
    ) -> None:
        self.sim_loop = sim_loop
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context = copy_context() if context is None else context
        self.is_cancelled = False
        self.at_s = at_s
        self.process: Process = context.get(PROCESS) or sim_loop.kernel

    def cancel(self) -> None:
        """Do not run it."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback = None
            self.args = ()
            if self.at_s >= 0:
                self.sim_loop.timer_cancelled()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """Return the loop time from which on it may run."""
        return self.at_s

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.process}>"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class SimTask(asyncio.Task[Any]):
    """A task that knows its process, with a hash that repeats."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        loop: asyncio.AbstractEventLoop,
        serial: int,
        process: Process,
        context: Context | None = None,
    ) -> None:
        self.serial = serial
        self.process = process
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self.serial


class SimFuture(asyncio.Future[Any]):
    """A future that knows its process, with a hash that repeats."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, serial: int) -> None:
        self.serial = serial
        self.process = process_of(None)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.serial
