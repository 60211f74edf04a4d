"""Schedules for the master's lease: what answers it is old when it is read."""

import asyncio
from typing import NamedTuple

import pytest

from simulator.faults.weather import Effect, pairs
from simulator.run.one_run import Run
from simulator.run.topology import LEASE_MS
from tests.sim.test_directed import SET_WITH_RECORDS, follow, leader_epoch, server
from tests.sim.test_directed_sets import controllers, cut, member_of

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LATE_S = 0.3
"""How long words are on their way; some take half as long again."""


class Held(NamedTuple):
    """What was seen of a lease."""

    was_held: bool
    until_s: float
    """When it was last held, after the master's words came nowhere any more."""


def slow(run: Run, some: list[str], others: list[str]) -> None:
    one_way = pairs(some, others, both_ways=False)
    run.cluster.weather.add(Effect(pairs=one_way, latency_s=LATE_S))


def silence(run: Run, some: list[str], others: list[str]) -> None:
    one_way = pairs(some, others, both_ways=False)
    run.cluster.weather.add(Effect(pairs=one_way, is_cut=True))


async def watch(run: Run, *, answers: list[str], deaf: list[str]) -> tuple[Held, float]:
    """Let the answers of some come late to the master; then silence it, and cut off the others.

    Returns what was seen of its lease, and when its successor was elected after that.
    """
    old = server(run, f"master:{SET_WITH_RECORDS}")
    epoch, may_read = leader_epoch(run, SET_WITH_RECORDS), member_of(run, old).may_read
    assert may_read is not None
    slow(run, answers, [old.name])
    await asyncio.sleep(2 * LATE_S)
    was_held, begun_s = may_read(), run.simulation.now_s
    cut(run, [old.name], deaf)
    silence(run, [old.name], answers)
    held_s = elected_s = 0.0
    while run.simulation.now_s < begun_s + 3.0:
        now_s = run.simulation.now_s - begun_s
        held_s = now_s if may_read() else held_s
        if not elected_s and leader_epoch(run, SET_WITH_RECORDS) > epoch:
            elected_s = now_s
        await asyncio.sleep(0.01)
    run.cluster.weather.clear()
    return Held(was_held, held_s), elected_s


def test_answers_of_controllers_that_come_late_let_nobody_read_beside_the_next_master() -> None:
    # The heartbeats come nowhere any more; for a while answers to earlier ones still arrive.
    async def schedule(run: Run) -> None:
        old = server(run, f"master:{SET_WITH_RECORDS}").name
        slaves = [host for host in run.cluster.servers if host.startswith("b") and host != old]
        held, elected_s = await watch(run, answers=controllers(run), deaf=slaves)
        assert held.was_held
        assert elected_s > 0.0
        assert held.until_s < elected_s, "two masters answer reads"

    follow(schedule)


def test_what_slaves_say_unasked_keeps_no_lease_of_a_master_that_they_do_not_hear() -> None:
    async def schedule(run: Run) -> None:
        old = server(run, f"master:{SET_WITH_RECORDS}").name
        slaves = [host for host in run.cluster.servers if host.startswith("b") and host != old]
        held, _ = await watch(run, answers=slaves, deaf=controllers(run))
        assert held.until_s <= LEASE_MS / 1_000

    follow(schedule)
