"""Moments in which files change hands, with the worst tried at every operation of the disk.

Random runs try an operation here and there (sim/trials/operations.py). These come to a cut, a copy,
a start, a roll, a deletion, an end in good order, and try each step of it on a copy.
"""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, Schedule, run_plan
from simulator.run.plan import Plan, Shape
from simulator.run.server import Server
from tests.sim.test_directed import (
    APART,
    BUSY,
    SET_WITH_RECORDS,
    _is_ahead,
    image_of,
    leader_epoch,
    server,
)
from tests.sim.test_directed_sets import LONE

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROLLING = replace(
    BUSY, is_churning=True, retention_bytes=40_000, records_per_second=300, pipeline=5
)
LATER = replace(LONE, is_flushed_later=True, records_per_second=300, pipeline=5)


def try_all(schedule: Schedule, shape: Shape, settle_ms: int = 800) -> None:
    """Run it once; nothing may be wrong."""
    result = run_plan(Plan(seed=1, shape=shape, settle_ms=settle_ms), schedule)
    assert not result.findings, result.findings[:3]
    assert result.acked > 0


async def in_step(run: Run) -> None:
    await run.until(lambda: len(image_of(run, SET_WITH_RECORDS).sync_state_set) == 3, seconds=20)


async def cut_what_is_ahead(run: Run, old: Server, every: int) -> None:
    """Let an old master follow whose log goes on behind the new one's."""
    epoch = leader_epoch(run, SET_WITH_RECORDS)
    others = [host for host in run.cluster.servers if host != old.name]
    cut = Effect(pairs=pairs([old.name], others, both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    await run.until(lambda: _is_ahead(run, old))
    await run.until(lambda: leader_epoch(run, SET_WITH_RECORDS) > epoch)
    await asyncio.sleep(0.2)
    with run.invariants.trials.densely([old.name], every):
        run.cluster.weather.remove(cut)
        await in_step(run)


@pytest.mark.parametrize(("shape", "every"), [(BUSY, 1), (replace(ROLLING, retention_bytes=-1), 4)])
def test_steps_of_a_truncation(shape: Shape, every: int) -> None:
    async def schedule(run: Run) -> None:
        await cut_what_is_ahead(run, server(run, f"master:{SET_WITH_RECORDS}"), every)

    try_all(schedule, shape)


@pytest.mark.parametrize("shape", [BUSY, ROLLING])
def test_every_step_of_a_copy(shape: Shape) -> None:
    async def schedule(run: Run) -> None:
        slave = server(run, f"slave:{SET_WITH_RECORDS}")
        slave.lose_disk("set-")
        with run.invariants.trials.densely([slave.name]):
            slave.start()
            await in_step(run)

    try_all(schedule, shape, settle_ms=2_000)


def test_every_step_of_catching_up_and_of_the_start_before_it() -> None:
    async def schedule(run: Run) -> None:
        slave = server(run, f"slave:{SET_WITH_RECORDS}")
        for stop in (slave.kill, slave.power_off, slave.stop):
            stop()
            await asyncio.sleep(0.6)
            with run.invariants.trials.densely([slave.name]):
                slave.start()
                await in_step(run)

    try_all(schedule, ROLLING)


def test_steps_of_rolls_retention_and_deletions() -> None:
    async def schedule(run: Run) -> None:
        with run.invariants.trials.densely(run.cluster.servers, every=25):
            await asyncio.sleep(3.0)

    try_all(schedule, ROLLING)


def test_steps_of_a_log_that_is_flushed_later() -> None:
    async def schedule(run: Run) -> None:
        one = server(run, f"master:{SET_WITH_RECORDS}")
        with run.invariants.trials.densely([one.name], every=10):
            for _ in range(3):
                await asyncio.sleep(1.0)
                one.stop()
                await run.until(lambda: not one.is_up)
                one.start()

    try_all(schedule, LATER)


def test_the_end_in_good_order_of_everybody_amid_writes() -> None:
    async def schedule(run: Run) -> None:
        for one in list(run.cluster.servers.values()):
            with run.invariants.trials.densely([one.name]):
                one.stop()
                await run.until(partial(lambda one: not one.is_up, one))
                one.start()
            await asyncio.sleep(0.5)

    try_all(schedule, replace(APART, records_per_second=300, pipeline=5))


def test_every_step_of_the_disks_of_controllers() -> None:
    async def schedule(run: Run) -> None:
        hosts = [host for host in run.cluster.servers if host.startswith("c")]
        with run.invariants.trials.densely(hosts):
            await asyncio.sleep(1.0)
            for one in [run.cluster.servers[host] for host in hosts] * 3:
                for stop in (one.kill, one.power_off):
                    stop()
                    await asyncio.sleep(0.2)
                    one.start()
                    await asyncio.sleep(0.3)

    try_all(schedule, APART)
