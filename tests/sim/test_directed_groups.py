"""Schedules around the coordinator of a group: cut off, replaced, with a clock that is wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.portions import Steps
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.groups.shard import GroupShard
from penstock.kafka import gate
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_member import GroupNotes
from simulator.clients.group_wire import NEWER, Seat, open_coordinator
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.faults.weather import Effect, pairs
from simulator.history import Outcome
from simulator.kernel.process import Process
from simulator.run.one_run import Run, Schedule, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.server import Server
from simulator.run.topology import KAFKA_PORT, SESSION_TIMEOUT_MS, TOPIC

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    # Processes that are cut off close nothing, and say so when they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

READ = Shape(is_apart=True, partitions=1, producers=1, records_per_second=20, groups=1)
UNATTENDED = Shape(
    is_apart=True, partitions=1, producers=1, groups=1, group_members=0, group_kept_ms=60_000
)
MONTH_MS = 2_592_000_000
REGRESSION = "committed-offset-regression"


def findings(schedule: Schedule, shape: Shape = READ, seed: int = 1) -> list[str]:
    return run_plan(Plan(seed=seed, shape=shape), schedule).findings


def notes_of(run: Run) -> GroupNotes:
    return run.clients.groups.notes[0]


def committed(run: Run) -> int:
    """The highest position that was acknowledged."""
    offsets = [
        commit.offset
        for commit in notes_of(run).commits
        if commit.outcome is Outcome.ACKED and not commit.is_fetched
    ]
    return max(offsets, default=-1)


def coordinator(run: Run) -> Server | None:
    """Who the newest image says coordinates the group."""
    image = run.cluster.newest_image()
    topic = None if image is None else image.topics_by_name.get(INTERNAL_TOPIC)
    if image is None or topic is None:
        return None
    placed = topic.partitions[partition_of(notes_of(run).name, len(topic.partitions))]
    host = run.cluster.brokers.get(image.replica_sets[placed.replica_set_id].master)
    return None if host is None else run.cluster.servers[host]


async def replaced(run: Run, old: Server) -> None:
    await run.until(lambda: coordinator(run) not in (None, old))


async def has_committed(run: Run, above: int = 0) -> int:
    """Wait for a commit. A member may ask a coordinator that was cut off several times first."""
    await run.until(lambda: committed(run) > above, seconds=60.0)
    return committed(run)


def cut_off(run: Run, one: Server) -> Effect:
    """Nothing passes between it and the other servers; clients still reach it."""
    others = [host for host in run.cluster.servers if host != one.name]
    cut = Effect(pairs=pairs([one.name], others, both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    return cut


async def cut_off_coordinator(run: Run) -> None:
    """Another one takes commits, while clients still reach the old one."""
    before = await has_committed(run)
    old = coordinator(run)
    assert old is not None
    cut = cut_off(run, old)
    await replaced(run, old)
    await has_committed(run, before)
    # Its watcher asks the old one meanwhile, for longer than a replaced one need not know it.
    await asyncio.sleep(3 * SESSION_TIMEOUT_MS / 1000)
    run.cluster.weather.remove(cut)


def test_a_coordinator_that_was_cut_off_tells_no_positions() -> None:
    for seed in range(3):
        assert findings(cut_off_coordinator, seed=seed) == []


def test_a_coordinator_that_tells_positions_without_a_lease_is_found(monkeypatch) -> None:
    monkeypatch.setattr(gate, "knows_group", lambda *_: True)
    assert any(REGRESSION in finding for finding in findings(cut_off_coordinator))


ASKED_OF_A_COORDINATOR = [
    (
        ApiKey.OFFSET_DELETE,
        0,
        {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
    ),
    (ApiKey.DELETE_GROUPS, 2, {}),
    (ApiKey.DESCRIBE_GROUPS, 5, {}),
]


@pytest.mark.parametrize(("key", "version", "fields"), ASKED_OF_A_COORDINATOR)
def test_a_coordinator_that_was_cut_off_says_nothing_of_groups_that_it_never_heard_of(
    key: ApiKey, version: int, fields: dict[str, Any]
) -> None:
    answers: list[Any] = []

    async def schedule(run: Run) -> None:
        name = notes_of(run).name
        await run.until(lambda: coordinator(run) is not None)
        old = coordinator(run)
        assert old is not None
        cut = cut_off(run, old)
        await replaced(run, old)
        await commit_from_outside(run, 5, but=old)
        names = {"group_id": name, "groups_names": [name], "groups": [name]}

        async def ask() -> None:
            link = await BrokerLink.open(old.name, KAFKA_PORT)
            answers.append(await link.call(key, version, {**names, **fields}))
            link.close()

        await as_a_client(run, ask)
        run.cluster.weather.remove(cut)

    assert findings(schedule, UNATTENDED) == []
    (answer,) = answers
    told = answer
    if key is ApiKey.DELETE_GROUPS:
        (told,) = answer.results
    if key is ApiKey.DESCRIBE_GROUPS:
        (told,) = answer.groups
    assert told.error_code == ErrorCode.NOT_COORDINATOR


async def as_a_client(run: Run, work: Callable[[], Awaitable[None]]) -> None:
    """Do it on a host of its own."""

    async def main(_: Process) -> None:
        await work()

    await run.simulation.start("client-outside", "outside", main).ended


async def commit_from_outside(run: Run, offset: int, but: Server | None = None) -> None:
    """Commit until that is acknowledged, as nobody's member who has not heard of one broker."""
    draw, world = run.simulation.random("outside"), run.clients.world
    brokers = {one: host for one, host in world.brokers.items() if but is None or host != but.name}
    world = replace(world, brokers=brokers)

    async def insist() -> None:
        while committed(run) < offset:
            try:
                link = await open_coordinator(world, draw, notes_of(run).name, NEWER)
                begun_ns, seat = now_ns(), Seat()
                notes_of(run).commit(
                    seat, {0: offset}, begun_ns, await link.commit(seat, {0: offset})
                )
                link.close()
            except LinkFailed:
                pass
            await pause(draw)

    await as_a_client(run, insist)


async def month_ahead(run: Run) -> None:
    """A wall clock jumps while nobody is in the group, and back."""
    await commit_from_outside(run, 1)
    old = coordinator(run)
    assert old is not None
    step = Fault(
        kind=FaultKind.CLOCK_STEP, at_ms=0, lasting_ms=0, targets=(old.name,), amount=MONTH_MS
    )
    back = run.faults.begin(step)
    assert back is not None
    await asyncio.sleep(2.0)
    back()


def test_a_wall_clock_that_jumps_ahead_expires_no_positions() -> None:
    assert findings(month_ahead, UNATTENDED) == []


def test_a_coordinator_that_expires_by_the_wall_clock_is_found(monkeypatch) -> None:
    expire = GroupShard._expire_groups

    def by_the_wall_clock(self: GroupShard) -> Steps:
        self._retention_now_ms = self._context.clock.wall_ms
        return expire(self)

    monkeypatch.setattr(GroupShard, "_expire_groups", by_the_wall_clock)
    assert any(REGRESSION in finding for finding in findings(month_ahead, UNATTENDED))
