"""One node of `penstock serve`: its process, kept running until `stop` is called.

    started ─► ready ─► ended by itself ─► pause, from 1 s to 60 s ─► started
                  └──► asked to stop (drains itself, see node/hand_over.py) ─► ended
                  └──► asked to restart ─► ended ─► started at once

A node that can not start is retried for ever: the others keep running, and the cause may go away,
such as a disk that is mounted late. Each failure is logged, and /health names the node.

The process ends with the supervisor, however that ends (`penstock node --supervised-by`).
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass

from penstock.base.errors import ConfigError
from penstock.cli.exit_codes import EXIT_FAILED, EXIT_OK
from penstock.cli.launch.node_process import ended, say
from penstock.cli.machine.http_get import NO_ANSWER, Answer, get, tls_of_pages
from penstock.cli.machine.plan import ANY_CORE, MachinePlan, PlannedNode

PAGE_BYTES_MAX = 8 << 20
"""Largest page of a node; with thousands of replica sets a page has megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The supervisor's time limits and pauses."""

    pause_s: float = 1.0
    """Pause before a node that ended by itself is restarted; doubled each time."""
    pause_s_max: float = 60.0
    steady_s: float = 60.0
    """After being ready for so long, a node's next pause is the first one again."""
    stop_s: float = 30.0
    """A node that has not ended after this is killed; its log recovers at the next start."""
    page_s: float = 2.0
    """Time limit for a page of a node."""
    poll_s: float = 0.25
    """Interval between polls of a node that is starting."""
    first_answer_s: float = 60.0
    """A node that was just started and has not answered yet counts as healthy for so long."""
    in_step_s: float = 900.0
    """Time limit for a restarted node to be ready and in step, having copied what it missed."""


class SupervisedNode:
    """See the module. The other methods may be called while `keep_running` runs."""

    def __init__(self, plan: MachinePlan, planned: PlannedNode, patience: Patience) -> None:
        self.plan = plan
        self.planned = planned
        self.starts = 0
        self.failures = 0
        """Consecutive times that the node ended by itself."""
        self.last_code = EXIT_OK
        self.is_ready = False
        """Whether the present process has answered that it is ready."""
        self.was_ready = False
        """Whether any process of the node ever has."""
        self.is_restarting = False
        """Whether it was asked to restart and is not back yet, which is no failure."""
        self._patience = patience
        self._process: asyncio.subprocess.Process | None = None
        self._started_at = 0.0
        self._is_over = asyncio.Event()
        self._is_asked_to_begin_anew = False

    @property
    def broker_id(self) -> int:
        """The id that clients see."""
        return self.planned.broker_id

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    @property
    def may_be_silent(self) -> bool:
        """Whether a missing answer is no failure, since the node was only just started."""
        age = time.monotonic() - self._started_at
        is_new = self.is_running and self.failures == 0 and not self.is_ready
        is_planned = self.is_restarting and self.failures == 0
        return is_planned or (is_new and age < self._patience.first_answer_s)

    async def keep_running(self) -> int:
        """Return the last exit code, once the node has ended and is not to be started again."""
        while not self._is_over.is_set():
            self.last_code = await self._run_once()
            is_asked, self._is_asked_to_begin_anew = self._is_asked_to_begin_anew, False
            if not self._is_over.is_set() and not is_asked:
                await self._pause()
        return self.last_code

    async def _pause(self) -> None:
        """Print how it ended, and wait before the next start."""
        patience = self._patience
        pause_s = min(patience.pause_s * 2**self.failures, patience.pause_s_max)
        self.failures += 1
        again = f" ({self.failures} times in a row)" if self.failures > 1 else ""
        say(
            f"node {self.broker_id} {ended(self.last_code)}{again}; the others go on, it is started"
            f" again in {pause_s:g} s"
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_over.wait(), pause_s)

    async def _run_once(self) -> int:
        self.starts += 1
        self._started_at = time.monotonic()
        try:
            process = self._process = await self._new_process()
        except OSError as error:  # no memory for a process, or the program is being replaced
            say(f"node {self.broker_id} gets no process: {error}")
            return EXIT_FAILED
        if self._is_over.is_set():  # `stop` was called while the process was being started
            process.terminate()
        watching = asyncio.create_task(self._watch_start())
        try:
            return await process.wait()
        finally:
            watching.cancel()
            self._process, self.is_ready = None, False
            if process.returncode is None:
                process.terminate()

    async def _new_process(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the supervisor, which ends one after the other
        )

    def _command(self) -> list[str]:
        planned = self.planned
        command = [sys.executable, "-m", "penstock.cli.main", "node"]
        command += ["--config", str(self.plan.config), "--supervised-by", str(os.getpid())]
        if planned.core != ANY_CORE:
            command += ["--core", str(planned.core)]
        for override in planned.overrides:
            command += ["--set", override]
        return command

    async def _watch_start(self) -> None:
        """Poll until the node is ready; then wait until it has been so for steady_s."""
        while (await self.page("/ready")).status != 200:  # noqa: ASYNC110  it is another process
            await asyncio.sleep(self._patience.poll_s)
        self.is_ready = self.was_ready = True
        await asyncio.sleep(self._patience.steady_s)
        self.failures = 0

    async def page(self, path: str) -> Answer:
        """Return what the node answers for a path of its metrics port."""
        if not self.is_running:
            return NO_ANSWER
        try:
            tls = tls_of_pages(self.planned.settings.security)
        except ConfigError:  # its certificate is being replaced
            return NO_ANSWER
        return await get(
            self.planned.metrics_address,
            path,
            seconds=self._patience.page_s,
            bytes_max=PAGE_BYTES_MAX,
            tls=tls,
        )

    def leave_down(self) -> None:
        """Do not start the node again when it ends."""
        self._is_over.set()

    async def stop(self) -> None:
        """End the node for good; returns when its process has ended."""
        self.leave_down()
        await self._end()

    async def begin_anew(self, plan: MachinePlan, planned: PlannedNode) -> None:
        """End the process and start it again at once, by this plan.

        Returns when the old process has ended. The caller resets `is_restarting`.
        """
        self.plan, self.planned = plan, planned
        self.is_restarting, self.failures = True, 0
        self._is_asked_to_begin_anew = self.is_running
        await self._end()

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), self._patience.stop_s)
        except TimeoutError:
            say(
                f"node {self.broker_id} did not end within {self._patience.stop_s:g} s: killed; "
                "what it acknowledged is durable"
            )
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
