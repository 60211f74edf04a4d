"""Simulated processes: start, stop, kill, power, pause."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator

import pytest

from penstock.base.errors import ConfigError
from simulator.kernel.process import End, Process
from simulator.kernel.simulation import Simulation, simulate
from tests.sim.net_toys import loop_of


def test_a_process_that_is_asked_to_stop_ends_when_its_main_returns() -> None:
    async def main(process: Process) -> int:
        await process.stopping.wait()
        await asyncio.sleep(2)
        return 3

    async def story(simulation: Simulation) -> tuple[End, int | None]:
        process = simulation.start("h", "p", main)
        await asyncio.sleep(1)
        process.stop()
        end = await process.ended
        assert 3 <= simulation.now_s < 3.1
        return end, process.exit_code

    assert simulate(1, story).value == (End.EXITED, 3)


def test_nothing_of_a_killed_process_runs_any_more() -> None:
    ran: list[str] = []

    async def ticker() -> AsyncIterator[int]:
        try:
            for number in range(1_000):
                await asyncio.sleep(0.1)
                yield number
        finally:
            ran.append("finally of a generator")

    async def tick() -> None:
        try:
            async for _ in ticker():
                ran.append("tick")  # noqa: PERF401
        finally:
            ran.append("finally")

    async def main(process: Process) -> None:
        process.call_later(5, ran.append, "timer")
        await asyncio.gather(tick(), tick(), asyncio.sleep(100))

    async def story(simulation: Simulation) -> tuple[list[str], list[str]]:
        process = simulation.start("h", "p", main)
        await asyncio.sleep(1.05)
        process.kill()
        process.kill()
        assert not process.is_alive
        before = list(ran)
        await asyncio.sleep(100)
        assert await process.ended is End.KILLED
        return before, list(ran)

    before, after = simulate(1, story).value
    assert before == ["tick"] * 20
    assert after == before


def test_a_kill_from_within_lets_the_present_callback_end_and_nothing_more() -> None:
    ran: list[str] = []

    async def main(process: Process) -> None:
        process.kill()
        ran.append("same callback")
        await asyncio.sleep(0)
        ran.append("next callback")

    async def story(simulation: Simulation) -> None:
        await simulation.start("h", "p", main).ended
        await asyncio.sleep(1)

    simulate(1, story)
    assert ran == ["same callback"]


def test_coroutines_of_killed_processes_are_let_go_when_the_run_is_over() -> None:
    freed: list[str] = []

    async def main(_process: Process) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            freed.append("memory outside")
            await asyncio.sleep(1)
            freed.append("what comes later")

    async def story(simulation: Simulation) -> None:
        for name in ("killed", "living"):
            simulation.start("h", name, main)
        await asyncio.sleep(1)
        simulation.processes[1].kill()
        await asyncio.sleep(1)
        assert not freed

    outcome = simulate(1, story)
    assert freed == ["memory outside"] * 2
    assert not outcome.failures


def test_finally_blocks_after_the_run_make_no_loop_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    ran: list[str] = []

    def new_event_loop(_policy: object) -> asyncio.AbstractEventLoop:
        made.append("loop")
        raise RuntimeError("no loop is wanted")

    async def main(_: Process) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ran.append("finally")
            await asyncio.gather(asyncio.sleep(1), return_exceptions=True)

    async def story(simulation: Simulation) -> None:
        simulation.start("h", "p", main).kill()
        simulation.start("h", "q", main)
        await asyncio.sleep(1)

    policy = type(asyncio.get_event_loop_policy())
    monkeypatch.setattr(policy, "new_event_loop", new_event_loop)
    simulate(1, story)
    assert ran
    assert made == []


def test_what_a_process_holds_at_the_end_of_a_run_can_do_no_harm_later() -> None:
    async def stubborn(_process: Process) -> None:
        while True:
            try:
                await asyncio.sleep(10)
            finally:
                asyncio.get_running_loop().call_soon(print, "too late")
                continue  # noqa: B012

    async def story(simulation: Simulation) -> None:
        simulation.start("h", "p", stubborn)
        await asyncio.sleep(1)

    assert not simulate(1, story).failures


def test_tasks_that_finally_blocks_make_after_the_run_are_missed_by_nobody() -> None:
    kept: list[asyncio.Task[None]] = []
    ran: list[str] = []

    async def work() -> None:
        ran.append("too late")

    async def main(_process: Process) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            kept.append(asyncio.create_task(work()))

    async def story(simulation: Simulation) -> None:
        process = simulation.start("h", "p", main)
        simulation.start("h", "q", main)
        await asyncio.sleep(1)
        process.kill()

    assert not simulate(1, story).failures
    assert len(kept) == 2
    kept.clear()
    gc.collect()  # Python complains here of a coroutine that nobody awaited
    assert not ran


def test_descriptors_that_a_killed_process_had_open_are_closed_when_the_run_is_over() -> None:
    opened: list[int] = []

    async def main(_process: Process) -> None:
        opened.append(os.open(os.devnull, os.O_RDONLY))
        closed = os.open(os.devnull, os.O_RDONLY)
        os.close(closed)
        await asyncio.sleep(100)

    async def story(simulation: Simulation) -> None:
        process = simulation.start("h", "p", main)
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(1)
        os.fstat(opened[0])

    simulate(1, story)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_paused_process_runs_its_timers_late_and_in_order() -> None:
    ran: list[tuple[float, int]] = []

    async def story(simulation: Simulation) -> None:
        async def main(process: Process) -> None:
            for number in range(1, 6):
                process.call_later(
                    number, lambda number=number: ran.append((simulation.now_s, number))
                )
            await asyncio.sleep(20)

        process = simulation.start("h", "p", main)
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(8)
        assert [number for _, number in ran] == [1]
        process.resume()
        assert await process.ended is End.EXITED

    simulate(1, story)
    assert [number for _, number in ran] == [1, 2, 3, 4, 5]
    assert all(9.5 <= at < 9.6 for at, _ in ran[1:])


def test_a_paused_process_can_be_killed() -> None:
    async def main(_process: Process) -> None:
        await asyncio.sleep(100)

    async def story(simulation: Simulation) -> End:
        process = simulation.start("h", "p", main)
        await asyncio.sleep(1)
        process.pause()
        await asyncio.sleep(1)
        process.kill()
        process.resume()
        return await process.ended

    assert simulate(1, story).value is End.KILLED


def test_a_power_cut_ends_all_processes_of_the_host_and_no_others() -> None:
    ends: list[tuple[str, str]] = []

    async def main(process: Process) -> None:
        process.on_end.append(lambda end: ends.append((process.name, end.value)))
        await asyncio.sleep(100)

    async def story(simulation: Simulation) -> None:
        for host, name in (("h1", "a"), ("h1", "b"), ("h2", "c")):
            simulation.start(host, name, main)
        await asyncio.sleep(1)
        assert [each.name for each in simulation.power_off("h1")] == ["a", "b"]
        assert [each.is_alive for each in simulation.processes] == [True, False, False, True]
        assert simulation.power_off("h1") == []

    simulate(1, story)
    assert ends == [("a", "powered off"), ("b", "powered off")]


def test_a_new_incarnation_gets_the_port_of_the_one_that_was_killed() -> None:
    async def main(process: Process) -> None:
        loop_of(process).open_socket("", 9092)
        with pytest.raises(ConfigError, match="choose another port"):
            loop_of(process).open_socket("", 9092)
        await asyncio.sleep(100)

    async def story(simulation: Simulation) -> None:
        first = simulation.start("h", "p", main)
        await asyncio.sleep(1)
        first.kill()
        second = simulation.start("h", "p", main)
        await asyncio.sleep(1)
        assert second.is_alive
        assert first.number != second.number

    assert not simulate(1, story).failures


def test_a_process_that_exits_by_system_exit_has_that_code() -> None:
    async def main(process: Process) -> None:
        def leave() -> None:
            raise SystemExit(4)

        process.call_soon(leave)
        await asyncio.sleep(100)

    async def story(simulation: Simulation) -> int | None:
        process = simulation.start("h", "p", main)
        await process.ended
        return process.exit_code

    assert simulate(1, story).value == 4
