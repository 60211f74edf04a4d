"""The housekeeper as a process: its jobs, its deaths, and its end with its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from harness.log_world import DIRECTORY, World, open_log
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.housekeeper.messages import Answer, Failed, Made, SplitJob
from penstock.node.housekeeper.process import MODULE, command
from penstock.runtime import housekeeper
from penstock.runtime.housekeeper import HousekeeperProcess
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.io.modesty import NICENESS
from tests.storage.second_level import closed_segments
from tests.storage.test_stores import KEY, OTHER, fill

pytestmark = pytest.mark.process

NAME = f"{DIRECTORY}/second/token-1.tmp"


@pytest.fixture
def job(tmp_path: Path) -> SplitJob:
    world = World()
    log = open_log(world, FileDisk(tmp_path))
    fill(world, log)
    bases = tuple(segment.base for segment in closed_segments(log))
    log.close()
    wanted = ((KEY, 0), (OTHER, 0))
    return SplitJob(str(tmp_path), DIRECTORY, NAME, bytes(16), 1, 0, 100_000, bases, wanted)


Use = Callable[["Helped"], Coroutine[Any, Any, None]]


class Helped:
    """A process that is asked, and its answers."""

    def __init__(self, words: list[str], seconds: float = 60.0) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.process = HousekeeperProcess(words, self._spawn, job_seconds_max=seconds)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def ask(self, job: SplitJob) -> Answer:
        answers: list[Answer] = []
        self.process.submit(job, answers.append)
        await self.tasks[-1]
        (answer,) = answers
        return answer


def run(use: Use, words: list[str] | None = None, seconds: float = 60.0) -> None:
    async def main() -> None:
        helped = Helped(words or command(0), seconds)
        try:
            await use(helped)
        finally:
            await helped.process.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_a_process_does_one_job_after_the_other(job: SplitJob, tmp_path: Path) -> None:
    async def use(helped: Helped) -> None:
        assert helped.process.starts == 0, "nothing to do, no process"
        first = await helped.ask(job)
        assert isinstance(first, Made)
        assert first.extents == 2
        assert (tmp_path / NAME).stat().st_size > first.batch_bytes
        assert isinstance(await helped.ask(job._replace(bases=(7,))), Failed)
        assert await helped.ask(job) == first
        assert helped.process.starts == 1
        pid = helped.process.pid
        assert pid is not None
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(NICENESS + os.nice(0), 19)

    run(use)


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_process_that_was_killed_is_an_answer_and_is_started_again(
    job: SplitJob, monkeypatch: pytest.MonkeyPatch, is_noticed: bool
) -> None:
    monkeypatch.setattr(housekeeper, "PAUSE_SECONDS", 0.01)

    async def use(helped: Helped) -> None:
        await helped.ask(job)
        pid = helped.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        if is_noticed:
            assert helped.process._process is not None
            await helped.process._process.wait()
        answer = await helped.ask(job)
        assert isinstance(answer, Failed)
        assert "signal 9" in answer.reason
        assert isinstance(await helped.ask(job), Made)
        assert helped.process.starts == 2

    run(use)


@pytest.mark.parametrize(
    "code",
    ["print('x' * 100)", "import sys; sys.exit(3)", "import sys; sys.stdout.write('ab')"],
    ids=["garbage", "exits", "half a message"],
)
def test_a_process_that_says_no_answer_is_ended(job: SplitJob, code: str) -> None:
    async def use(helped: Helped) -> None:
        answer = await helped.ask(job)
        assert isinstance(answer, Failed)
        assert helped.process.pid is None

    run(use, [sys.executable, "-c", code])


def test_a_process_that_is_silent_is_ended(job: SplitJob) -> None:
    async def use(helped: Helped) -> None:
        answer = await helped.ask(job)
        assert isinstance(answer, Failed)
        assert "no answer in 0.5 s" in answer.reason
        assert helped.process.pid is None

    run(use, [sys.executable, "-c", "import time; time.sleep(1000)"], seconds=0.5)


def test_a_program_that_is_not_there_is_an_answer(job: SplitJob) -> None:
    async def use(helped: Helped) -> None:
        assert isinstance(await helped.ask(job), Failed)

    run(use, ["/no/such/program"])


def test_the_rate_bounds_reads_and_writes(job: SplitJob) -> None:
    async def use(helped: Helped) -> None:
        begun = time.monotonic()
        answer = await helped.ask(job)
        assert isinstance(answer, Made)
        assert time.monotonic() - begun > 2 * answer.batch_bytes / 300_000 - 0.2

    run(use, command(300_000))


def test_a_rate_counts_at_once_for_the_job_under_way_and_for_later_processes(
    job: SplitJob, tmp_path: Path
) -> None:
    slow = 4_000

    async def use(helped: Helped) -> None:
        before = await helped.ask(job)
        assert isinstance(before, Made)
        (tmp_path / NAME).unlink()
        helped.process.set_rate(slow)
        answers: list[Answer] = []
        helped.process.submit(job, answers.append)
        assert await asyncio.to_thread(wait_until, (tmp_path / NAME).exists, UNTIL_SECONDS)
        helped.process.set_rate(0)
        begun = time.monotonic()
        await helped.tasks[-1]
        assert answers == [before]
        assert time.monotonic() - begun < before.batch_bytes / slow
        assert helped.process.pid is not None
        os.kill(helped.process.pid, signal.SIGKILL)
        assert isinstance(await helped.ask(job), Failed)
        assert isinstance(await helped.ask(job), Made)

    run(use, command(0))


def test_a_process_ends_with_its_parent_also_within_a_job(job: SplitJob, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, os\n"
        "from penstock.housekeeper.messages import encode_job, SplitJob\n"
        f"job = {job!r}\n"
        f"words = [sys.executable, '-m', {MODULE!r}, '1000', str(os.getpid())]\n"
        "child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(encode_job(1, job)); child.stdin.flush()\n"
        "print(child.pid, flush=True); child.wait()\n"
    )
    code = "from penstock.base.ids import TopicPartition\n" + code
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert wait_until((tmp_path / NAME).exists, UNTIL_SECONDS)
        parent.kill()
    assert wait_until(lambda: not is_alive(child), UNTIL_SECONDS)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
