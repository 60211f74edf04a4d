"""Schedules for controllers that were away and get the metadata as a snapshot, over many turns."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.base.ports import Buffer
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.controller.errors import MetadataError
from penstock.controller.replicated_log import MachineIndex
from penstock.node.node import Node
from penstock.runtime import image_installing
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.image_installing import ImageInstalling
from penstock.runtime.session.client import SessionClient
from simulator.run.one_run import NotReached, Run, RunResult, run_plan
from simulator.run.plan import Plan
from simulator.run.server import Server
from tests.sim.test_directed_voters import COMPACTED, CONTROLLERS, active, server

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOPICS = 30
Schedule = Callable[[Run], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make slices of one topic; return a list that gets an item for each slice installed."""
    taken: list[int] = []
    go_on = ImageInstalling.go_on

    def counted(self: ImageInstalling) -> None:
        taken.append(id(self))
        go_on(self)

    monkeypatch.setattr(image_installing, "SLICE_RECORDS", 1)
    monkeypatch.setattr(ImageInstalling, "go_on", counted)
    return taken


def follow(schedule: Schedule, seeds: int = 3) -> list[RunResult]:
    return [run_plan(Plan(seed=seed, shape=COMPACTED), schedule) for seed in range(seeds)]


def assert_clean(results: list[RunResult]) -> None:
    for result in results:
        assert not result.findings, (result.plan.seed, result.findings[:3])
        assert result.acked > 0


async def create(run: Run, prefix: str, count: int, *, at_once: int) -> None:
    """Create topics, `at_once` in an entry of the metadata log, and wait until they are there."""

    async def work(node: Node) -> None:
        assert node.sessions is not None
        for first in range(0, count, at_once):
            names = [f"{prefix}-{one}" for one in range(first, first + at_once)]
            await until_taken(node.sessions, names)

    assert run.cluster.ask("create topics", work)
    last = f"{prefix}-{count - 1}"

    def is_there() -> bool:
        image = run.cluster.newest_image()
        return image is not None and last in image.topics_by_name

    await run.until(is_there, seconds=10)


async def until_taken(sessions: SessionClient, names: list[str]) -> None:
    """Ask again while there is no active controller; a topic that is there already is no harm."""
    while True:
        try:
            await sessions.submit(CreateTopics(topics=tuple(NewTopic(name=name) for name in names)))
        except MetadataError:
            await asyncio.sleep(0.1)
        else:
            return


async def far_behind(run: Run) -> Server:
    """Return a controller without a lead that lacks topics which the others have in a snapshot."""
    leader = await active(run)
    behind = next(server(run, host) for host in CONTROLLERS if host != leader.name)
    behind.kill()
    await create(run, "missed", TOPICS, at_once=10)
    await create(run, "soon", 6, at_once=1)  # and a log that is cut behind them
    behind.start()
    return behind


def applied(one: Server) -> int:
    """Return the index that a controller has applied; -1 while it is not open."""
    node = one.node
    return node.plane.log.applied_index if node is not None and node.plane.is_open else -1


async def catches_up(run: Run, behind: Server) -> None:
    def is_level() -> bool:
        newest = max(node.plane.log.applied_index for node in run.cluster.nodes())
        return applied(behind) >= newest

    await run.until(is_level, seconds=10)


def test_topics_made_while_a_snapshot_is_installed_are_there_afterwards(turns: list[int]) -> None:
    async def schedule(run: Run) -> None:
        behind = await far_behind(run)
        await create(run, "meanwhile", 12, at_once=1)
        await catches_up(run, behind)

    assert_clean(follow(schedule))
    assert len(turns) > TOPICS


def test_a_controller_may_be_killed_at_any_slice(turns: list[int]) -> None:
    async def schedule(run: Run) -> None:
        behind = await far_behind(run)
        for _ in range(3):
            done = len(turns)
            with contextlib.suppress(NotReached):  # it may have caught up already
                await run.until(lambda done=done: len(turns) > done + 5, seconds=2)  # type: ignore[misc]
            behind.kill()
            behind.start()
        await create(run, "meanwhile", 3, at_once=1)
        await catches_up(run, behind)

    assert_clean(follow(schedule))
    assert turns


def test_an_image_that_is_shown_before_it_counts_as_applied_is_found(
    turns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_snapshot = ControllerDriver.install_snapshot

    def late(
        self: ControllerDriver, index: MachineIndex, snapshot: Buffer, done: Callable[[], None]
    ) -> None:
        def in_a_later_turn() -> None:
            asyncio.get_running_loop().call_soon(done)

        install_snapshot(self, index, snapshot, in_a_later_turn)

    monkeypatch.setattr(ControllerDriver, "install_snapshot", late)

    async def schedule(run: Run) -> None:
        behind = await far_behind(run)
        await catches_up(run, behind)

    (result,) = follow(schedule, seeds=1)
    assert any("metadata at entry" in finding for finding in result.findings)
    assert turns
