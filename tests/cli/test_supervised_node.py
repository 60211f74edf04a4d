"""One node under a supervisor: starts again with growing pauses, ends, begins anew."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, until
from penstock.cli.machine.plan import MachinePlan, PlannedNode
from penstock.cli.machine.rolling import in_step
from penstock.cli.machine.supervised_node import Patience, SupervisedNode
from penstock.node.settings.settings import NodeSettings

QUICK = Patience(pause_s=0.02, pause_s_max=0.05, stop_s=0.3, page_s=0.1, poll_s=0.01)
PATIENT = Patience(pause_s=60, stop_s=UNTIL_SECONDS, page_s=0.1, poll_s=0.01)
SLEEPS = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {}; time.sleep(600)"


class Node(SupervisedNode):
    """A node whose process runs some lines of Python."""

    def __init__(self, code: str, patience: Patience = QUICK) -> None:
        planned = PlannedNode(broker_id=7, settings=NodeSettings(), overrides=())
        plan = MachinePlan(config=Path("none"), nodes=(planned,), host="127.0.0.1", port=1)
        super().__init__(plan, planned, patience)
        self.code = code

    def _command(self) -> list[str]:
        return [sys.executable, "-S", "-c", self.code]


def test_a_node_that_fails_is_tried_again_with_growing_pauses(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def run() -> None:
        node = Node("raise SystemExit(3)")
        life = asyncio.create_task(node.keep_running())
        await until(lambda: node.failures >= 4)
        assert not node.may_be_silent
        node.leave_down()
        assert await life == 3
        assert node.starts >= 4

    asyncio.run(run())
    told = capfd.readouterr().err.splitlines()
    assert told[0] == (
        "penstock: node 7 ended with exit code 3; the others go on, it is started again in 0.02 s"
    )
    assert told[1].endswith("(2 times in a row); the others go on, it is started again in 0.04 s")
    assert told[2].endswith("(3 times in a row); the others go on, it is started again in 0.05 s")


def test_a_node_that_gets_no_process_is_tried_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def run() -> None:
        node = Node("")
        node._command = lambda: ["/no/such/program"]  # type: ignore[method-assign]
        life = asyncio.create_task(node.keep_running())
        await until(lambda: node.failures >= 2)
        assert not node.is_running
        node.leave_down()
        assert await life == 1

    asyncio.run(run())
    told = capfd.readouterr().err.splitlines()
    assert told[0].startswith("penstock: node 7 gets no process: [Errno 2]")
    assert told[1].endswith("it is started again in 0.02 s")


def test_a_node_is_ended_and_killed_where_it_does_not_listen(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    is_deaf = tmp_path / "is-deaf"

    async def run(code: str, patience: Patience, is_up: Callable[[], bool]) -> int:
        node = Node(code, patience)
        life = asyncio.create_task(node.keep_running())
        await until(lambda: node.is_running and is_up())
        assert node.may_be_silent
        await node.stop()
        return await life

    assert asyncio.run(run(SLEEPS, PATIENT, lambda: True)) == -15
    assert capfd.readouterr().err == ""
    deaf = DEAF.format(f"open({str(is_deaf)!r}, 'w')")
    assert asyncio.run(run(deaf, QUICK, is_deaf.exists)) == -9
    assert "node 7 did not end within 0.3 s: killed" in capfd.readouterr().err


def test_a_node_that_begins_anew_waits_for_no_pause_once(capfd: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        node = Node(SLEEPS, PATIENT)
        life = asyncio.create_task(node.keep_running())
        await until(lambda: node.is_running)
        node.code = "raise SystemExit(3)"
        await node.begin_anew(node.plan, node.planned)
        await until(lambda: node.failures == 1)
        assert node.starts == 2
        assert not node.may_be_silent, "it failed after its restart"
        node.leave_down()
        await life

    asyncio.run(run())
    assert capfd.readouterr().err.count("started again in 60 s") == 1


def cluster(**sets: tuple[int, list[int], list[int]]) -> dict[str, Any]:
    return {
        "sets": [
            {
                "master": master,
                "sync_state_set": in_sync,
                "members": [{"broker_id": member} for member in members],
            }
            for master, in_sync, members in sets.values()
        ]
    }


def test_a_node_is_in_step_when_all_its_sets_are_led_and_have_it() -> None:
    assert in_step(cluster(), 1)
    assert in_step(cluster(a=(2, [1, 2], [1, 2]), b=(-1, [], [2, 3])), 1)
    assert not in_step(cluster(a=(2, [2], [1, 2])), 1)
    assert not in_step(cluster(a=(-1, [1, 2], [1, 2])), 1)
