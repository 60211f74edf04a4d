"""Task supervision: every task of a node has a name, an owner and a handler for its failure.

A task handles all errors that it expects. Any other exception is a bug or corrupt state: the
process stops, since continuing could lose acknowledged data. The supervisor is the only place that
catches all exceptions.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.runtime.io.begun import begin

log = logging.getLogger(__name__)


class Supervisor:
    """Owns the tasks of one node."""

    def __init__(self, stop_process: Callable[[str], None]) -> None:
        """`stop_process(reason)` ends the node; it is called at most once per failed task."""
        self._stop_process = stop_process
        self._tasks: dict[asyncio.Task[None], str] = {}

    def run_once(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run one coroutine to its end; an unexpected exception stops the process."""
        self._add(asyncio.get_running_loop().create_task(work, name=name), name)

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Like `run_once`, but run it up to its first wait at once."""
        self._add(begin(name, work), name)

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(self, task: asyncio.Task[None], name: str) -> None:
        self._tasks[task] = name
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        log.critical("task=%s failed", name, exc_info=error)
        self._stop_process(f"task {name} failed: {error!r}")
