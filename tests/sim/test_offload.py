"""Work on a simulated disk: when it runs, what ends with its process."""

import asyncio
from functools import partial
from random import Random

import pytest

from simulator.kernel.disk import SimDisk
from simulator.kernel.offload import ANSWER_S, LATENCY_S, THREADS, SimOffload
from simulator.kernel.process import Main, Process, current_process
from simulator.kernel.simulation import Simulation, simulate
from tests.sim.net_toys import loop_of


def offload_of(simulation: Simulation) -> tuple[SimDisk, SimOffload]:
    disk = SimDisk(simulation.random("disk"))
    return disk, SimOffload(simulation.loop, disk, simulation.random("workers"))


def test_work_runs_off_the_caller_and_is_answered_later_in_its_process() -> None:
    seen: list[tuple[str, str]] = []

    def note(what: str) -> None:
        process = current_process()
        assert process is not None
        seen.append((what, process.name))

    async def main(process: Process) -> None:
        offload = SimOffload(loop_of(process), SimDisk(Random(0)), Random(0))
        answered = asyncio.Event()

        def done(result: str | None, error: BaseException | None) -> None:
            assert (result, error) == ("worth", None)
            note("done")
            answered.set()

        def work() -> str:
            note("work")
            return "worth"

        offload.submit(work, done)
        note("submitted")
        await answered.wait()

    async def story(simulation: Simulation) -> float:
        await simulation.start("h", "server", main).ended
        return simulation.now_s

    took_s = simulate(1, story).value
    assert seen == [("submitted", "server"), ("work", "server"), ("done", "server")]
    assert LATENCY_S[0] <= took_s <= LATENCY_S[1] + ANSWER_S + 0.0001


def test_what_work_raises_is_handed_on() -> None:
    async def story(simulation: Simulation) -> BaseException | None:
        _, offload = offload_of(simulation)
        failed: asyncio.Future[BaseException | None] = simulation.loop.create_future()
        offload.submit(lambda: int("nothing"), lambda _, error: failed.set_result(error))
        return await failed

    assert isinstance(simulate(1, story).value, ValueError)


def finish_times(seed: int, count: int, delay_ms: float = 0) -> list[tuple[int, float]]:
    """Return the numbers of pieces of work in the order in which they ended, with the time."""

    async def story(simulation: Simulation) -> list[tuple[int, float]]:
        disk, offload = offload_of(simulation)
        disk.sync_delay_ms = delay_ms
        ended: list[tuple[int, float]] = []
        all_done = asyncio.Event()

        def work(number: int) -> None:
            ended.append((number, simulation.now_s))

        def done(_result: None, _error: BaseException | None) -> None:
            if len(ended) == count:
                all_done.set()

        for number in range(count):
            offload.submit(partial(work, number), done)
        await all_done.wait()
        return ended

    return simulate(seed, story).value


def test_as_many_pieces_of_work_run_at_a_time_as_there_are_threads() -> None:
    times = finish_times(1, 40)
    numbers = [number for number, _ in times]
    assert numbers != sorted(numbers), "what was handed in later may be done earlier"
    assert all(abs(number - place) < 4 * THREADS for place, number in enumerate(numbers))
    assert times[-1][1] > 40 / THREADS * LATENCY_S[0]
    assert finish_times(1, 40) == times
    assert finish_times(2, 40) != times


def test_a_slow_disk_takes_longer() -> None:
    quick, slow = finish_times(1, 20)[-1][1], finish_times(1, 20, delay_ms=200)[-1][1]
    assert quick < 0.02
    assert 20 / THREADS * 0.1 < slow < 20 / THREADS * 0.31


def writer(disk: SimDisk, answers: list[str]) -> Main:
    async def main(process: Process) -> None:
        offload = SimOffload(loop_of(process), disk, Random(0))
        file = disk.open("a", create=True)
        disk.sync_directory("")

        def work() -> str:
            position = file.size()
            file.write(position, [b"x"])
            file.sync()
            return "durable"

        def done(result: str | None, _error: BaseException | None) -> None:
            answers.append(str(result))
            offload.submit(work, done)

        offload.submit(work, done)
        await process.stopping.wait()

    return main


@pytest.mark.parametrize("end", ["kill", "power_off", "pause"])
def test_nothing_runs_when_its_process_does_not(end: str) -> None:
    disk = SimDisk(Random(0))
    answers: list[str] = []

    async def story(simulation: Simulation) -> None:
        process = simulation.start("h", "server", writer(disk, answers))
        await asyncio.sleep(1)
        if end == "power_off":
            simulation.power_off("h")
        else:
            getattr(process, end)()
        done, size = len(answers), len(disk.names["a"].data)
        assert size - 1 <= done <= size
        assert done > 300
        await asyncio.sleep(10)
        assert (len(answers), len(disk.names["a"].data)) == (done, size)
        if end == "pause":
            process.resume()
            await asyncio.sleep(1)
            assert len(answers) > done + 300

    simulate(1, story)


async def killed_writer(disk: SimDisk, answers: list[str], simulation: Simulation) -> None:
    process = simulation.start("h", "server", writer(disk, answers))
    await asyncio.sleep(0.01 + simulation.random("end").random() / 100)
    process.kill()


def test_a_process_that_ends_may_have_made_durable_what_it_never_heard_of() -> None:
    unheard = 0
    for seed in range(12):
        disk = SimDisk(Random(seed))
        answers: list[str] = []
        simulate(seed, partial(killed_writer, disk, answers))
        unheard += len(disk.names["a"].durable) - len(answers)
    assert 0 < unheard < 12


def test_a_process_ends_in_the_middle_of_its_work() -> None:
    disk = SimDisk(Random(0))
    answers: list[str] = []

    async def story(simulation: Simulation) -> None:
        process = simulation.start("h", "server", writer(disk, answers))
        await asyncio.sleep(0.1)
        disk.cut_after(1, process.kill)
        await asyncio.sleep(0.1)
        before = len(answers)
        disk.power_loss()
        assert len(disk.names["a"].durable) - before in {0, 1}, "written, and not synced"
        await asyncio.sleep(0.1)
        assert len(answers) == before

    simulate(1, story)


def test_closing_does_what_was_handed_in() -> None:
    async def story(simulation: Simulation) -> None:
        _, offload = offload_of(simulation)
        ran: list[int] = []
        told: list[int | None] = []

        def work(number: int) -> int:
            ran.append(number)
            return number

        for number in range(10):
            offload.submit(partial(work, number), lambda result, _: told.append(result))
        offload.close()
        assert ran == list(range(10))
        assert not told
        await asyncio.sleep(1)
        assert sorted(one for one in told if one is not None) == ran

    simulate(1, story)


def three_writes(disk: SimDisk, name: str, order: list[str]) -> str:
    """Work of several operations on one file."""
    file = disk.open(name, create=True)
    try:
        for number in range(3):
            file.write(number, [name.encode()])
            order.append(name)
    finally:
        file.close()
        order.append(f"{name} closed")
    return name


def interleaved(seed: int) -> tuple[list[str], str]:
    order: list[str] = []

    async def story(simulation: Simulation) -> list[str]:
        disk, offload = offload_of(simulation)
        told: list[str | None] = []
        for name in "ab":
            offload.submit(
                partial(three_writes, disk, name, order), lambda result, _: told.append(result)
            )
        await asyncio.sleep(1)
        assert sorted(map(str, told)) == ["a", "b"]
        assert [bytes(disk.names[one].data) for one in "ab"] == [b"aaa", b"bbb"]
        return order

    outcome = simulate(seed, story)
    return outcome.value, outcome.digest


@pytest.fixture
def all_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.kernel.offload.APART_SHARE", 1.0)


@pytest.mark.usefixtures("all_apart")
def test_two_pieces_of_work_run_through_each_other_and_the_same_way_again() -> None:
    mixed = 0
    for seed in range(5):
        order, digest = interleaved(seed)
        assert interleaved(seed) == (order, digest)
        writes = [one for one in order if "closed" not in one]
        mixed += writes not in (list("aaabbb"), list("bbbaaa"))
    assert mixed > 0


@pytest.mark.usefixtures("all_apart")
def test_a_process_that_ends_between_two_operations_never_does_the_second() -> None:
    async def story(simulation: Simulation, number: int) -> int:
        disk = SimDisk(Random(0))
        order: list[str] = []

        async def main(process: Process) -> None:
            offload = SimOffload(loop_of(process), disk, Random(number))
            offload.submit(partial(three_writes, disk, "a", order), lambda *_: None)
            await asyncio.sleep(1)

        process = simulation.start("h", "server", main)
        while not order:  # noqa: ASYNC110  there is no event for it
            await asyncio.sleep(0.00005)
        process.kill()
        written = order.count("a")
        assert disk.names["a"].data == b"a" * written
        await asyncio.sleep(1)
        assert disk.names["a"].data == b"a" * written
        return written

    assert {simulate(1, partial(story, number=number)).value for number in range(8)} & {1, 2}


@pytest.mark.usefixtures("all_apart")
def test_work_at_whose_operation_the_power_goes_ends_its_process_and_itself() -> None:
    async def story(simulation: Simulation, number: int) -> list[str]:
        disk = SimDisk(Random(0))
        order: list[str] = []
        told: list[object] = []

        async def main(process: Process) -> None:
            offload = SimOffload(loop_of(process), disk, Random(number))
            offload.submit(partial(three_writes, disk, "a", order), lambda *_: told.append(_))
            await asyncio.sleep(1)

        process = simulation.start("h", "server", main)
        disk.cut_after(1, process.kill)
        await asyncio.sleep(1)
        assert not process.is_alive
        assert told == []
        return order

    for number in range(4):
        assert simulate(1, partial(story, number=number)).value == ["a", "a closed"]


@pytest.mark.usefixtures("all_apart")
def test_closing_brings_work_to_its_end_that_stands_in_between() -> None:
    async def story(simulation: Simulation) -> None:
        disk, offload = offload_of(simulation)
        order: list[str] = []
        for name in "abcdef":
            offload.submit(partial(three_writes, disk, name, order), lambda *_: None)
        await asyncio.sleep(0.002)
        assert 0 < sum("closed" in one for one in order) < 6
        offload.close()
        assert sum("closed" in one for one in order) == 6

    simulate(1, story)


@pytest.mark.usefixtures("all_apart")
def test_closing_does_nothing_once_the_process_is_gone() -> None:
    # A `finally` of the process runs when the simulation is over, and closes what is left.
    async def story(simulation: Simulation) -> None:
        disk = SimDisk(Random(0))
        order: list[str] = []
        made: list[SimOffload] = []

        async def main(process: Process) -> None:
            made.append(SimOffload(loop_of(process), disk, Random(0)))
            for name in "abcdef":
                made[0].submit(partial(three_writes, disk, name, order), lambda *_: None)
            await asyncio.sleep(1)

        process = simulation.start("h", "server", main)
        await asyncio.sleep(0.002)
        process.kill()
        done = list(order)
        assert 0 < sum("closed" in one for one in done) < 6
        made[0].close()
        assert order == done

    simulate(1, story)
