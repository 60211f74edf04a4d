"""The simulated event loop: virtual time, order, errors, bounds."""

import asyncio
import random
import secrets
import time
import uuid

import pytest

from simulator.kernel.loop import START_S, BoundExceeded, Deadlock
from simulator.kernel.process import Process, current_process
from simulator.kernel.simulation import Simulation, simulate


def test_sleeping_takes_virtual_time_only() -> None:
    async def story(simulation: Simulation) -> tuple[float, float]:
        await asyncio.sleep(3_000)
        return simulation.now_s, simulation.loop.time()

    elapsed, loop_time = simulate(1, story).value
    assert 3_000 <= elapsed < 3_000.001
    assert loop_time == START_S + elapsed


def test_callbacks_of_one_process_run_in_the_order_in_which_they_were_scheduled() -> None:
    ran: dict[str, list[int]] = {"a": [], "b": [], "c": []}

    async def main(process: Process) -> None:
        done = asyncio.Event()
        for number in range(50):
            process.call_soon(ran[process.name].append, number)
        process.call_soon(done.set)
        await done.wait()

    async def story(simulation: Simulation) -> None:
        for process in [simulation.start("h", name, main) for name in ran]:
            await process.ended

    simulate(3, story)
    assert all(numbers == list(range(50)) for numbers in ran.values())


def test_the_order_between_processes_follows_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        ran: list[str] = []

        async def main(process: Process) -> None:
            for _ in range(5):
                ran.append(process.name)
                await asyncio.sleep(0)

        async def story(simulation: Simulation) -> None:
            for process in [simulation.start("h", name, main) for name in "abcd"]:
                await process.ended

        simulate(seed, story)
        return ran

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(8)}) > 4


def test_timers_that_are_due_at_one_time_run_in_the_order_in_which_they_were_set() -> None:
    ran: list[int] = []

    async def story(simulation: Simulation) -> None:
        at = simulation.loop.time() + 1
        for number in range(100):
            simulation.loop.call_at(at, ran.append, number)
        await asyncio.sleep(2)

    simulate(1, story)
    assert ran == list(range(100))


def test_cancelled_timers_neither_run_nor_pile_up() -> None:
    ran: list[int] = []

    async def story(simulation: Simulation) -> int:
        loop = simulation.loop
        kept = loop.call_later(50, ran.append, 1)
        for _ in range(10_000):
            loop.call_later(100, ran.append, 2).cancel()
        left = len(loop._timers)
        await asyncio.sleep(200)
        assert kept.when() < loop.time()
        kept.cancel()
        return left

    assert simulate(1, story).value < 1_000
    assert ran == [1]


def test_nothing_left_to_run_is_a_deadlock() -> None:
    async def story(_simulation: Simulation) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"at 0\.000 s"):
        simulate(1, story)


def test_a_loop_without_end_is_stopped_by_the_bound_on_callbacks() -> None:
    async def story(_simulation: Simulation) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(BoundExceeded, match="1000 callbacks"):
        simulate(1, story, steps_max=1_000)


def test_waiting_without_end_is_stopped_by_the_bound_on_virtual_time() -> None:
    async def story(_simulation: Simulation) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(10)

    with pytest.raises(BoundExceeded, match="virtual seconds"):
        simulate(1, story, seconds_max=60)


def test_what_the_story_raises_ends_the_run() -> None:
    async def story(_simulation: Simulation) -> None:
        raise LookupError("found nothing")

    with pytest.raises(LookupError, match="found nothing"):
        simulate(1, story)


def test_a_failed_callback_is_recorded_for_its_process_and_told_to_its_handler() -> None:
    told: list[tuple[str, BaseException]] = []

    def fail() -> None:
        raise ValueError("a")

    async def main(process: Process) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _loop, context: told.append((process.name, context["exception"]))
        )
        await asyncio.sleep(1)
        if process.name == "one":
            process.call_soon(fail)
        await asyncio.sleep(1)

    async def story(simulation: Simulation) -> None:
        both = [simulation.start("h", name, main) for name in ("one", "two")]
        for process in both:
            await process.ended
        assert [len(process.failures) for process in both] == [1, 0]

    outcome = simulate(1, story)
    assert [(name, str(error)) for name, error in told] == [("one", "a")]
    (failure,) = outcome.failures
    assert (failure.process, str(failure.error)) == ("<one#2 on h>", "a")


def test_a_task_that_failed_and_was_never_asked_is_recorded_for_the_process_that_made_it() -> None:
    async def fail() -> None:
        raise ValueError("nobody asks")

    async def main(_process: Process) -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    async def story(simulation: Simulation) -> None:
        await simulation.start("h", "careless", main).ended

    (failure,) = simulate(1, story).failures
    assert failure.process == "<careless#2 on h>"
    assert failure.message.endswith("exception was never retrieved")


def test_a_failed_task_that_only_a_cycle_holds_is_recorded_at_the_end_of_the_run() -> None:
    async def fail() -> None:
        raise ValueError("nobody can ask")

    async def story(_simulation: Simulation) -> None:
        cycle: list[object] = [asyncio.create_task(fail())]
        cycle.append(cycle)
        await asyncio.sleep(1)

    assert [str(each.error) for each in simulate(1, story).failures] == ["nobody can ask"]


def test_a_process_whose_main_fails_has_ended_with_code_1() -> None:
    async def main(_process: Process) -> None:
        raise ValueError("at the start")

    async def story(simulation: Simulation) -> int | None:
        process = simulation.start("h", "broken", main)
        await process.ended
        return process.exit_code

    outcome = simulate(1, story)
    assert outcome.value == 1
    assert [each.message for each in outcome.failures] == ["main failed"]


def test_a_set_of_tasks_is_iterated_in_the_same_order_in_each_run() -> None:
    def order() -> list[int]:
        async def sleep(number: int) -> int:
            await asyncio.sleep(0.5)
            return number

        async def story(_simulation: Simulation) -> list[int]:
            tasks = {asyncio.create_task(sleep(number)) for number in range(400)}
            done, _ = await asyncio.wait(tasks)
            return [task.result() for task in done]

        return simulate(1, story).value

    assert order() == order()


def test_an_executor_runs_the_function_at_once() -> None:
    async def story(_simulation: Simulation) -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.get_running_loop().run_in_executor(None, pow, 2, 10)

    assert simulate(1, story).value == 1024


def test_clocks_and_randomness_of_the_standard_library_follow_the_run() -> None:
    async def story(_simulation: Simulation) -> tuple[object, ...]:
        before = time.monotonic(), time.time()
        await asyncio.sleep(5)
        assert 5 <= time.monotonic() - before[0] < 5.001
        assert 5 <= time.time() - before[1] < 5.001
        with pytest.raises(RuntimeError, match=r"asyncio\.sleep"):
            time.sleep(1)  # noqa: ASYNC251
        return (
            random.random(),
            secrets.token_hex(8),
            secrets.randbelow(1 << 60),
            random.SystemRandom().random(),
            str(uuid.uuid4()),
        )

    first = simulate(1, story).value
    assert first == simulate(1, story).value
    assert not set(first) & set(simulate(2, story).value)


def test_clocks_and_randomness_are_the_real_ones_after_a_run() -> None:
    names = (time.time, time.monotonic, time.sleep, random.random, secrets.token_hex, uuid.uuid4)
    random.seed(7)
    expected = random.random()
    random.seed(7)

    async def story(_simulation: Simulation) -> None:
        random.random()
        raise LookupError

    with pytest.raises(LookupError):
        simulate(1, story)
    assert names == (
        time.time, time.monotonic, time.sleep, random.random, secrets.token_hex, uuid.uuid4,
    )  # fmt: skip
    assert random.random() == expected


def test_outside_of_a_process_there_is_no_current_one() -> None:
    with pytest.raises(RuntimeError, match="no simulated process"):
        current_process()


def test_a_value_that_may_differ_from_run_to_run_is_not_taken_into_the_trace() -> None:
    async def story(simulation: Simulation) -> None:
        simulation.note("plain", 1, "two", b"3", None)
        with pytest.raises(TypeError, match="give text"):
            simulation.note("odd", object())  # type: ignore[arg-type]
        events = [str(event) for event in simulation.trace.events]
        assert events[0].endswith("plain 1 two b'3' None")

    simulate(1, story)
