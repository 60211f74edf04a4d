"""Schedules around the coordinator of a group: cut off, replaced, with a clock that is wrong."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.broker.handlers import offset_fetch
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.partitioning import INTERNAL_TOPIC, partition_of
from penstock.sim.group_member import GroupNotes
from penstock.sim.group_wire import NEWER, Seat, open_coordinator
from penstock.sim.history import Outcome
from penstock.sim.kernel.process import Process
from penstock.sim.plan import Fault, FaultKind, Plan, Shape
from penstock.sim.run import Run, Schedule, run_plan
from penstock.sim.server import Server
from penstock.sim.weather import Effect, pairs
from penstock.sim.wire import LinkFailed
from penstock.sim.world import now_ns, pause

pytestmark = [
    pytest.mark.timeout(120),  # hangs only; what a run may take is bounded in the run
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
        one.offset
        for one in notes_of(run).commits
        if one.outcome is Outcome.ACKED and not one.is_fetched
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
    await run.until(lambda: committed(run) > above)
    return committed(run)


async def cut_off_coordinator(run: Run) -> None:
    """Another one takes commits, while clients still reach the old one."""
    before = await has_committed(run)
    old = coordinator(run)
    assert old is not None
    others = [host for host in run.cluster.servers if host != old.name]
    cut = Effect(pairs=pairs([old.name], others, both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    await replaced(run, old)
    await has_committed(run, before)
    await asyncio.sleep(1.0)  # its watcher asks the old one meanwhile
    run.cluster.weather.remove(cut)


def test_a_coordinator_that_was_cut_off_tells_no_positions() -> None:
    for seed in range(3):
        assert findings(cut_off_coordinator, seed=seed) == []


def test_a_coordinator_that_tells_positions_without_a_lease_is_found(monkeypatch) -> None:
    monkeypatch.setattr(offset_fetch, "knows_positions", lambda *_: True)
    assert any(REGRESSION in one for one in findings(cut_off_coordinator))


async def as_a_client(run: Run, work: Callable[[], object]) -> None:
    """Do it on a host of its own."""

    async def main(_: Process) -> None:
        await work()

    await run.simulation.start("client-outside", "outside", main).ended


async def commit_from_outside(run: Run, offset: int) -> None:
    """Commit until that is acknowledged, as nobody's member."""
    world, draw = run.clients.world, run.simulation.random("outside")

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
    await commit_from_outside(
        run, 1 << 40
    )  # nothing is acknowledged above it: the group is through


def test_a_wall_clock_that_jumps_ahead_expires_no_positions() -> None:
    assert findings(month_ahead, UNATTENDED) == []


def test_a_coordinator_that_expires_by_the_wall_clock_is_found(monkeypatch) -> None:
    expire = GroupCoordinator._expire_groups

    def by_the_wall_clock(self: GroupCoordinator) -> None:
        self._retention_now_ms = self._clock.wall_ms
        expire(self)

    monkeypatch.setattr(GroupCoordinator, "_expire_groups", by_the_wall_clock)
    assert any(REGRESSION in one for one in findings(month_ahead, UNATTENDED))
