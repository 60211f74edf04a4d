"""The end of a run: close the suspended coroutines of killed processes.

A killed process runs nothing any more, so its suspended coroutines must stay referenced during the
run: a coroutine that is collected runs its `finally` blocks. When the run is over they are closed
here. Their `finally` blocks then run, on a loop that schedules nothing and a network that sends
nothing, so that they release resources outside the simulation without affecting it.

Disks refuse work for processes that have ended by themselves.
"""

import asyncio
import gc
import logging
import sys
import warnings
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from simulator.kernel.handles import SimTask
from simulator.kernel.process import Process

_CLOSES_MAX = 100
"""A coroutine that awaits in `finally` must be closed again; so often at most."""


def tasks_of(loop: asyncio.AbstractEventLoop, process: Process | None = None) -> list[SimTask]:
    """Return unfinished tasks, of one process or all, oldest first."""
    tasks = cast("set[SimTask]", asyncio.all_tasks(loop))
    found = [task for task in tasks if process is None or task.process is process]
    return sorted(found, key=lambda task: task.serial)


@contextmanager
def silenced() -> Iterator[None]:
    """Let finalizers run and fail without a word: they belong to processes that are no more."""
    hook, disabled_level = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = _ignore_unraisable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # coroutines that never began, tasks that never ended
            yield
    finally:
        sys.unraisablehook = hook
        logging.disable(disabled_level)


def dispose_of(loop: asyncio.AbstractEventLoop, processes: Iterable[Process]) -> None:
    """Close what the processes left behind. The loop is over already, and passes for running:

    asyncio would make another loop for a `finally` block that asks for one, and leave it open.
    """
    asyncio._set_running_loop(loop)  # noqa: SLF001  asyncio's own way for loops
    try:
        for task in tasks_of(loop):
            _close(task)
        for process in processes:
            process.graveyard.clear()
            process.queue.clear()
            process.on_end.clear()
        gc.collect()
    finally:
        asyncio._set_running_loop(None)  # noqa: SLF001


def leave_unbegun(task: SimTask) -> None:
    """Close what a `finally` block makes a task of: nobody runs it, and Python would complain.

    It has no `finally` blocks of its own yet, so that no context is needed.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  asyncio's name
    cast("Coroutine[Any, Any, Any]", task.get_coro()).close()


def _close(task: SimTask) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  asyncio's name
    coroutine = cast("Coroutine[Any, Any, Any]", task.get_coro())
    for _ in range(_CLOSES_MAX):
        try:
            task.process.context.run(coroutine.close)
        except BaseException:  # noqa: BLE001, S112  of a process that is no more
            continue
        return


def _ignore_unraisable(_unraisable: object) -> None:
    """Errors of finalizers of processes that are no more."""
