"""The contract of the Clock port, held by the real clock and by the simulated one."""

import asyncio
import time
from typing import Any

import pytest

from penstock.base.ports import Clock
from penstock.runtime.io import clock as clock_module
from penstock.runtime.io.clock import SystemClock
from simulator.kernel.simulation import Simulation, simulate
from simulator.run.server import HostTime, SimClock


class Machine:
    """The kernel's clocks of a machine that was suspended."""

    CLOCK_BOOTTIME, CLOCK_MONOTONIC = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC

    def __init__(self, awake_ns: int, suspended_ns: int) -> None:
        self._read = {
            self.CLOCK_MONOTONIC: awake_ns,
            self.CLOCK_BOOTTIME: awake_ns + suspended_ns,
        }

    def clock_gettime_ns(self, number: int) -> int:
        return self._read[number]

    def monotonic_ns(self) -> int:
        return self._read[self.CLOCK_MONOTONIC]


def check_units(clock: Clock) -> None:
    first_us, ms, last_us = clock.monotonic_us(), clock.monotonic_ms(), clock.monotonic_us()
    assert first_us // 1_000 <= ms <= last_us // 1_000


def test_milliseconds_and_microseconds_are_of_one_clock() -> None:
    check_units(SystemClock())


def test_the_real_clock_counts_the_time_of_a_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "time", Machine(awake_ns=5_000_000, suspended_ns=60_000_000))
    assert SystemClock().monotonic_ms() == 65
    assert SystemClock().monotonic_us() == 65_000


def test_the_simulated_clock_counts_the_time_in_which_a_process_stands_still() -> None:
    seen: list[int] = []

    async def story(simulation: Simulation) -> None:
        async def main(_: Any) -> int:
            clock = SimClock(simulation.loop, HostTime())
            check_units(clock)
            for _ in range(2):
                seen.append(clock.monotonic_ms())
                await asyncio.sleep(0.1)
            return 0

        process = simulation.start("one", "one", main)
        await asyncio.sleep(0.05)
        process.pause()
        await asyncio.sleep(60)
        process.resume()
        await asyncio.sleep(1)

    simulate(1, story)
    assert seen[1] - seen[0] >= 60_000
