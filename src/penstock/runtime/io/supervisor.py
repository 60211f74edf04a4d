"""Task supervision: every task of a node has a name, an owner and somebody who sees it fail.

A task that ends with a PlatformError or OSError is reported and, where it was started as a service,
started again after a second, with a bound on how often. An InvariantViolation or any other
exception is our bug or corrupt state: the process stops, since going on could lose what was
acknowledged. The supervisor is the one place that catches everything.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.base.errors import PlatformError

RESTART_DELAY_S = 1.0
RESTARTS_MAX = 60

log = logging.getLogger(__name__)


class Supervisor:
    """Owns the tasks of one node."""

    def __init__(self, stop_process: Callable[[str], None]) -> None:
        """`stop_process(reason)` ends the node; it is called at most once per failed task."""
        self._stop_process = stop_process
        self._tasks: dict[asyncio.Task[None], str] = {}

    def run_service(self, name: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `start()` and run it again when it ends with an expected error."""
        self._add(name, self._keep_running(name, start))

    def run_once(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run one coroutine to its end; an unexpected exception stops the process."""
        self._add(name, work)

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._on_done)

    async def _keep_running(
        self, name: str, start: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        for attempt in range(1, RESTARTS_MAX + 1):
            try:
                await start()
            except (PlatformError, OSError) as error:
                log.warning("service=%s attempt=%d failed: %s", name, attempt, error)
                await asyncio.sleep(RESTART_DELAY_S)
            else:
                return
        raise RuntimeError(f"{name} failed {RESTARTS_MAX} times")

    def _on_done(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        log.critical("task=%s failed", name, exc_info=error)
        self._stop_process(f"task {name} failed: {error!r}")
