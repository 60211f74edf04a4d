"""Copies of a base that are cut off half-way: by the network, by a death, by a loss of power."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan
from simulator.run.server import Server
from tests.sim.test_directed import BUSY, SET_WITH_RECORDS, image_of, server
from tests.sim.test_directed_sets import member_of

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHORT = replace(BUSY, segment_bytes=64 << 10, retention_bytes=64 << 10)
"""What the log began with is deleted soon: who has none can only begin with a copy of a base."""

Interrupt = Callable[[Run, Server, Server], Callable[[], None]]
"""Ends the copy from the master to the slave; returns what heals it."""


def by_the_network(run: Run, slave: Server, master: Server) -> Callable[[], None]:
    cut = Effect(pairs=pairs([slave.name], [master.name], both_ways=True), is_cut=True)
    run.cluster.weather.add(cut)
    return lambda: run.cluster.weather.remove(cut)


def by_the_slaves_death(run: Run, slave: Server, master: Server) -> Callable[[], None]:
    slave.kill()
    return slave.start


def by_the_masters_death(run: Run, slave: Server, master: Server) -> Callable[[], None]:
    master.kill()
    return master.start


def by_a_loss_of_power(run: Run, slave: Server, master: Server) -> Callable[[], None]:
    slave.power_off()
    return slave.start


def copied_bytes(slave: Server) -> int:
    return sum(len(file.data) for name, file in slave.disk.names.items() if "/install/" in name)


@pytest.mark.parametrize(
    "interrupt", [by_the_network, by_the_slaves_death, by_the_masters_death, by_a_loss_of_power]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_was_cut_off_is_begun_again_and_gets_in_step(
    interrupt: Interrupt, seed: int
) -> None:
    reached: list[int] = []

    async def schedule(run: Run) -> None:
        slave = server(run, f"slave:{SET_WITH_RECORDS}")
        master = server(run, f"master:{SET_WITH_RECORDS}")
        await run.until(lambda: member_of(run, master).log.start_position > 0, seconds=20)
        slave.lose_disk("set-")
        slave.disk.sync_delay_ms += 50  # so that the copy takes its time
        slave.start()
        await run.until(lambda: copied_bytes(slave) > 0, seconds=20)
        assert member_of(run, slave).log.end_position == 0, "the copy is not there yet"
        reached.append(copied_bytes(slave))
        heal = interrupt(run, slave, master)
        await asyncio.sleep(0.5)
        slave.disk.sync_delay_ms -= 50
        heal()
        await run.until(
            lambda: len(image_of(run, SET_WITH_RECORDS).sync_state_set) == 3, seconds=30
        )

    result = run_plan(Plan(seed=seed, shape=SHORT, settle_ms=800), schedule)
    assert not result.findings, result.findings[:3]
    assert reached
    assert result.acked > 0
