"""A program of some hundred tasks under faults; prints seed, trace hash and what came of it.

    python -m tests.sim.determinism_toy FIRST COUNT [planted]

Its output must be the same in each process, whatever the hash seed: it uses what tends to differ,
such as sets of tasks, cancelled groups and random numbers. With `planted` it also does what can not
be repeated: it goes through a set of texts.
"""

import asyncio
import random
import secrets
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation, simulate
from tests.sim.net_toys import PORT, echo_server, loop_of

SERVERS = ("s1", "s2", "s3")
ASKERS = 12


async def ask(host: str, number: int, answered: set[str]) -> None:
    """Ask a server again and again, whatever happens to it."""
    while True:
        try:
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(host, PORT)
                try:
                    for count in range(5):
                        text = f"{number} {count} {secrets.token_hex(number % 7 + 1)}\n"
                        writer.write(text.encode())
                        if await reader.readline() == text.encode():
                            answered.add(text)
                finally:
                    writer.close()
            await asyncio.sleep(random.random())
        except OSError:
            await asyncio.sleep(0.1)


async def race() -> int:
    """Run tasks in sets; return a number that depends on every order."""

    async def wait(number: int) -> int:
        await asyncio.sleep(0.01 * (number % 3))
        if number == 300:
            raise LookupError
        return number

    done, _ = await asyncio.wait({asyncio.create_task(wait(number)) for number in range(300)})
    total = 0
    for task in done:
        total = (total * 31 + task.result()) % 1_000_003
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(301):
                group.create_task(wait(number))
    except* LookupError:
        total += 1
    return total


async def client(process: Process) -> None:
    """Ask all servers, and race, until asked to stop."""
    answered: set[str] = set()
    tasks = [
        asyncio.create_task(ask(SERVERS[number % 3], number, answered)) for number in range(ASKERS)
    ]
    loop_of(process).note("race", process.name, await race())
    await process.stopping.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    loop_of(process).note("answered", process.name, len(answered))


async def story(simulation: Simulation) -> str:
    """Let two clients ask three servers while those fail."""
    network = simulation.network
    draws = simulation.random("faults")
    servers = {host: simulation.start(host, "server", echo_server()) for host in SERVERS}
    clients = [simulation.start(f"c{number}", "client", client) for number in range(2)]
    for _ in range(4):
        await asyncio.sleep(draws.uniform(0.1, 0.5))
        host = draws.choice(SERVERS)
        fault = draws.choice(("kill", "power", "pause", "cut", "loss", "reset"))
        if fault == "kill":
            servers[host].kill()
        elif fault == "power":
            simulation.power_off(host)
        elif fault == "pause":
            servers[host].pause()
        elif fault == "cut":
            network.cut("c1", host, both_ways=draws.random() < 0.5)
        elif fault == "loss":
            network.set_links(["c0"], [host], loss=0.5)
        else:
            network.reset("c0", host, 0.5)
        await asyncio.sleep(0.2)
        network.heal()
        servers[host].resume()
        if not servers[host].is_alive:
            servers[host] = simulation.start(host, "server", echo_server())
    for process in clients:
        process.stop()
        await process.ended
    return " ".join(str(event) for event in simulation.trace.events if event.name == "answered")


async def planted(_simulation: Simulation) -> str:
    """Sleep in an order that the hash seed decides."""
    for text in {str(number) for number in range(30)}:
        await asyncio.sleep(int(text))
    return ""


def main(first: int, count: int, told: Callable[[Simulation], Coroutine[Any, Any, str]]) -> None:
    """Print one line for each seed."""
    for seed in range(first, first + count):
        outcome = simulate(seed, told)
        print(seed, outcome.digest, outcome.steps, outcome.value)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), planted if sys.argv[3:] else story)
