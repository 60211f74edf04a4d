"""The housekeeper as a child process: started when there is a job, and again when it has died.

    job ─► process there? ─► frame into its stdin ─► wait ─► frame from its stdout ─► answer
      died, silent for JOB_SECONDS_MAX, or said no answer ─► killed, and the answer is Failed

The next start waits, twice as long each time that no job was answered. The process is ended with
SIGKILL: whatever it was doing, nothing of it counts. It ends by itself with the node.

Source: docs/adr/0104.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.housekeeper.errors import BadMessage
from penstock.housekeeper.messages import (
    FRAME,
    Answer,
    Failed,
    Job,
    check_body,
    decode_answer,
    encode_job,
    encode_rate,
    read_head,
)

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]

PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 60.0
JOB_SECONDS_MAX = 3_600.0
"""A file takes some ten seconds; with a low rate, on a disk that others keep busy, much longer."""

log = logging.getLogger(__name__)


class HousekeeperProcess:
    """Implements Housekeeper with a process that runs `command`."""

    def __init__(
        self, command: Sequence[str], spawn: Spawn, *, job_seconds_max: float = JOB_SECONDS_MAX
    ) -> None:
        self._command = command
        self._spawn = spawn
        self._job_seconds_max = job_seconds_max
        self._process: asyncio.subprocess.Process | None = None
        self._number = 0
        self._deaths = 0
        """How often in a row a process ended without an answer."""
        self._is_at_work = False
        self._rate: int | None = None
        """What it is told; None while the rate of the command counts."""
        self.starts = 0

    @property
    def pid(self) -> int | None:
        """Process id while one runs."""
        return None if self._process is None else self._process.pid

    def submit(self, job: Job, done: Callable[[Answer], None]) -> None:
        """Do a job; see the port."""
        assert not self._is_at_work, "one job at a time"
        self._is_at_work = True
        self._spawn("housekeeper", self._do(job, done))

    def set_rate(self, bytes_per_second: int) -> None:
        """Tell the rate, also to processes that are started later; see the port."""
        self._rate = bytes_per_second
        self._tell_rate()

    def _tell_rate(self) -> None:
        """Tell the process, if there is one. A job is a single write, so this is between two."""
        stdin = None if self._process is None else self._process.stdin
        if stdin is not None and not stdin.is_closing() and self._rate is not None:
            stdin.write(encode_rate(self._rate))

    async def _do(self, job: Job, done: Callable[[Answer], None]) -> None:
        try:
            async with asyncio.timeout(self._job_seconds_max):
                answer = await self._ask(job)
            self._deaths = 0
        except TimeoutError:
            answer = Failed(f"no answer in {self._job_seconds_max:g} s: the housekeeper is ended")
            await self._end()
        except (BadMessage, OSError, EOFError) as error:
            answer = Failed(f"the housekeeper ended: {await self._end() or error}")
        self._is_at_work = False
        done(answer)

    async def _ask(self, job: Job) -> Answer:
        """Start the process if there is none; say the job and wait for the answer.

        Raises BadMessage; OSError, EOFError: the process has ended, or could not be started.
        """
        process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._number += 1
        # Tens of thousands of partitions take some ten milliseconds, which are not the loop's.
        frame = await asyncio.to_thread(encode_job, self._number, job)
        if process.stdin.is_closing():
            raise BrokenPipeError("it ended while it had nothing to do")
        process.stdin.write(frame)
        await process.stdin.drain()
        length, crc = read_head(await process.stdout.readexactly(FRAME.size))
        body = check_body(await process.stdout.readexactly(length), length, crc)
        number, answer = decode_answer(body)
        if number != self._number:
            raise BadMessage(f"an answer to job {number}, not {self._number}")
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        if self._deaths:
            await asyncio.sleep(min(PAUSE_SECONDS * 2**self._deaths, PAUSE_SECONDS_MAX))
        self.starts += 1
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the node, which ends it
        )
        log.info("housekeeper pid=%d started", self._process.pid)
        self._tell_rate()
        return self._process

    async def _end(self) -> str:
        """Kill the process and wait for its end; return how it ended, if there was one."""
        self._deaths = min(self._deaths + 1, 16)
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        code = await process.wait()
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def stop(self) -> None:
        """End the process; nothing is called any more."""
        await self._end()
