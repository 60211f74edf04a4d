"""Schedules for voters of the controllers that lose their disks while the cluster runs."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from penstock.base.ids import PeerId
from penstock.controller.commands.command import SetFailover
from penstock.controller.errors import MetadataError
from penstock.node.node import Node
from penstock.raft.configuration import Configuration
from penstock.raft.roles import votes as votes_module
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.session.client import SessionClient
from penstock.runtime.session.messages import ChangeControllers
from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.server import Server
from simulator.run.topology import CONTROLLER_PORT

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

APART = Shape(is_apart=True, partitions=1, producers=1)
COMPACTED = replace(APART, snapshot_after_bytes=512)
CONTROLLERS = ("c1", "c2", "c3")
SHAPES = pytest.mark.parametrize("shape", [APART, COMPACTED], ids=["log", "snapshots"])
Schedule = Callable[[Run], Coroutine[Any, Any, None]]


def follow(schedule: Schedule, shape: Shape = APART) -> None:
    """Run the schedule under a few seeds; nothing may be wrong with any."""
    for seed in range(3):
        result = run_plan(Plan(seed=seed, shape=shape), schedule)
        assert not result.findings, (seed, result.findings[:3])
        assert result.acked > 0


def server(run: Run, host: str) -> Server:
    return run.cluster.servers[host]


async def active(run: Run) -> Server:
    """Wait until a controller leads; the one of the newest term."""
    await run.until(lambda: bool(run.cluster.hosts(["active"])), seconds=5)
    (host,) = run.cluster.hosts(["active"])
    return server(run, host)


def cut_off(run: Run, *hosts: str) -> Effect:
    others = [host for host in run.cluster.servers if host not in hosts]
    cut = Effect(pairs=pairs(hosts, others, both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    return cut


async def change_metadata(run: Run, count: int = 6) -> None:
    """Commit entries that only the controllers which are up now have."""

    async def work(node: Node) -> None:
        assert node.sessions is not None
        for number in range(count):
            await until_taken(node.sessions, SetFailover(is_enabled=number % 2 == 1))

    image = run.cluster.newest_image()
    assert image is not None
    before = max(one.plane.log.applied_index for one in run.cluster.nodes())
    assert run.cluster.ask("change metadata", work)
    await run.until(
        lambda: max(one.plane.log.applied_index for one in run.cluster.nodes()) >= before + count,
        seconds=5,
    )


async def until_taken(sessions: SessionClient, command: SetFailover) -> None:
    """Ask again while there is no active controller, or it is not known yet."""
    while True:
        try:
            await sessions.submit(command)
        except MetadataError:
            await asyncio.sleep(0.1)
        else:
            return


@SHAPES
def test_a_wiped_voter_does_not_vote_for_a_log_without_what_was_committed(shape: Shape) -> None:
    # What is committed while one is cut off is on two disks; then one of these is lost.
    async def schedule(run: Run) -> None:
        leader = await active(run)
        wiped, behind = (server(run, host) for host in CONTROLLERS if host != leader.name)
        cut = cut_off(run, behind.name)
        await change_metadata(run)
        leader.kill()
        wiped.replace_disk()
        run.cluster.weather.remove(cut)
        wiped.start()
        await asyncio.sleep(3.0)
        assert not run.cluster.hosts(["active"]), "elected by a voter that has forgotten"
        leader.start()
        await change_metadata(run)

    follow(schedule, shape)


def test_the_old_leader_that_was_cut_off_meanwhile_commits_nothing() -> None:
    # It still leads for a moment on its side; a voter on the other side comes back without a disk.
    async def schedule(run: Run) -> None:
        leader = await active(run)
        wiped, other = (server(run, host) for host in CONTROLLERS if host != leader.name)
        cut = cut_off(run, leader.name)
        wiped.replace_disk()
        wiped.start()
        await asyncio.sleep(2.0)
        assert other.name not in run.cluster.hosts(["active"])
        run.cluster.weather.remove(cut)
        await change_metadata(run)
        await run.until(lambda: votes(run, wiped))

    follow(schedule)


@SHAPES
def test_two_voters_that_lose_their_disks_one_after_the_other_are_both_readmitted(
    shape: Shape,
) -> None:
    async def schedule(run: Run) -> None:
        leader = await active(run)
        for wiped in [server(run, host) for host in CONTROLLERS if host != leader.name]:
            await change_metadata(run)
            wiped.replace_disk()
            wiped.start()
            await run.until(lambda wiped=wiped: votes(run, wiped))  # type: ignore[misc]
        leader.kill()
        await change_metadata(run)

    follow(schedule, shape)


def test_a_voter_that_loses_its_disk_while_another_is_removed_gets_its_vote_back() -> None:
    async def schedule(run: Run) -> None:
        leader = await active(run)
        wiped, removed = (server(run, host) for host in CONTROLLERS if host != leader.name)
        asked = change_voters(run, "remove", wiped)
        await run.until(asked.done)
        wiped.replace_disk()
        wiped.start()
        while not votes(run, wiped):
            await asyncio.sleep(0.3)  # refused until it has caught up
            asked = change_voters(run, "add", wiped)
            await run.until(asked.done)
        removed.kill()
        await change_metadata(run)

    follow(schedule)


def votes(run: Run, wiped: Server) -> bool:
    """Whether it has a vote, by its own word and with the directory that it has."""
    node = wiped.node
    if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
        return False
    return node.plane.log.is_voter


def change_voters(run: Run, action: str, whom: Server) -> "asyncio.Future[None]":
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    place = f"{whom.name}:{CONTROLLER_PORT}" if action == "add" else ""

    async def work(node: Node) -> None:
        assert node.sessions is not None
        try:
            await node.sessions.commands.operate(
                lambda request_id: ChangeControllers(
                    request_id=request_id,
                    action=action,
                    peer_id=PeerId(whom.host.process_id),
                    address=place,
                )
            )
        finally:
            done.set_result(None)

    assert run.cluster.ask(action, work)
    return done


def test_a_voter_that_votes_with_an_empty_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # As before ADR 0027: nobody looks at directories, and an empty one goes by the settings.
    monkeypatch.setattr(votes_module, "_is_for_another", lambda *_: False)
    monkeypatch.setattr(Configuration, "is_voter", lambda one, peer_id, _: one.has(peer_id))

    async def schedule(run: Run) -> None:
        leader = await active(run)
        wiped, behind = (server(run, host) for host in CONTROLLERS if host != leader.name)
        cut = cut_off(run, behind.name)
        await change_metadata(run)
        leader.kill()
        wiped.replace_disk()
        run.cluster.weather.remove(cut)
        wiped.start()
        await asyncio.sleep(2.0)
        run.cluster.ask("another history", switch_on)
        await asyncio.sleep(2.0)
        leader.start()
        await asyncio.sleep(1.0)

    async def switch_on(node: Node) -> None:
        assert node.sessions is not None
        await until_taken(node.sessions, SetFailover(is_enabled=True))

    findings = [
        text
        for seed in range(3)
        for text in run_plan(Plan(seed=seed, shape=APART), schedule).findings
    ]
    assert any("is of term" in text for text in findings), findings
