"""Are promises to RocketMQ's remoting clients kept through the kills of masters?

`python -m reliability.remoting_failovers --kills 50`: the clients of the simulator, over real
sockets to real processes. They send, delay, decide transactions, pop, pull and send back, while
masters of their topic and other nodes are killed with -9 and started again; in the end all nodes at
once. Then everything that was acknowledged is there, and popped, and pulled; nothing that was
acknowledged comes again, nothing is early, every transaction is decided once, or discarded.
"""

import asyncio
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.waiting import wait_until
from penstock.cli.exit_codes import end_with
from reliability.kill_question import KillQuestion
from simulator.clients.remoting.cast import TOPIC, RemotingCast
from simulator.clients.world import ClientWorld
from simulator.history.remoting.events import Clock

GOAL = "0 lost, 0 acknowledged popped again, none early, none decided twice"
PARTITIONS = 2
CLIENTS = 2
BETWEEN_SECONDS = 1.5
END_SECONDS_MAX = 240.0
LOOK_SECONDS = 0.5
APART_MS = 5
"""The wall clock against the monotonic one: it is set a little, now and then."""
KINDS = ("master", "master", "any")
CHECKED = {
    "remoting": {
        "transaction_first_check_ms": 1_000,
        "transaction_check_interval_ms": 1_000,
        "transaction_checks_max": 3,
    }
}


@dataclass(slots=True)
class Draws:
    """Randomness of one trial."""

    seed: int

    def random(self, name: str, /) -> random.Random:
        """Return a source for this name."""
        return random.Random(f"{self.seed} {name}")


@dataclass(slots=True)
class RemotingRun:
    """One cluster, its clients, and what is wrong."""

    cluster: ClusterProcess
    draws: Draws
    problems: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    async def through(self, kills: int) -> RemotingCast:
        """Let clients work through so many kills, and judge what they were told."""
        loop = asyncio.get_running_loop()
        clock = Clock(round(time.time() * 1_000 - loop.time() * 1_000), APART_MS)
        world = self._world()
        cast = RemotingCast(self.draws, world, CLIENTS)
        writers = cast.start(self._start)
        draw = self.draws.random("kills")
        for number in range(kills):
            await asyncio.sleep(BETWEEN_SECONDS)
            if not await asyncio.to_thread(self._is_whole, f"after {number} kills"):
                break
            await asyncio.to_thread(self._kill, KINDS[number % len(KINDS)], draw)
        world.is_stopping = True
        await asyncio.gather(*writers)
        await asyncio.to_thread(self._kill_all)
        await asyncio.to_thread(self._is_whole, "after the last kill")
        await self._settle(cast)
        world.is_over = True
        await asyncio.gather(*self._tasks)
        self.problems += [*cast.behind(), *cast.judge(clock)]
        return cast

    def _world(self) -> ClientWorld:
        nodes = self.cluster.nodes
        addresses = {f"node-{one}": _split(self.cluster.address_of(one)) for one in nodes}
        return ClientWorld(
            brokers={one: f"node-{one}" for one in nodes},
            partitions=PARTITIONS,
            addresses=addresses,
            remoting=tuple(f"127.0.0.1:{port}" for port in self.cluster.remoting_ports.values()),
        )

    def _start(self, name: str, works: list[Coroutine[Any, Any, None]]) -> asyncio.Task[Any]:
        async def run() -> None:
            await asyncio.gather(*works)

        task = asyncio.get_running_loop().create_task(run(), name=name)
        self._tasks.append(task)
        return task

    def _is_whole(self, when: str) -> bool:
        """Wait until every replica is in step."""
        if wait_until(lambda: is_whole(self.cluster), WHOLE_SECONDS_MAX):
            return True
        self.problems.append(f"not whole again {when}")
        return False

    def _kill(self, kind: str, draw: random.Random) -> None:
        self.done[kind] += 1
        victim = draw.choice(sorted(self.cluster.nodes))
        if kind == "master":
            victim = self.cluster.wait_for_leader(TOPIC, draw.randrange(PARTITIONS))
        self.cluster.nodes[victim].kill()
        time.sleep(BETWEEN_SECONDS * draw.random())
        self.cluster.nodes[victim].launch()

    def _kill_all(self) -> None:
        for node in self.cluster.nodes.values():
            node.kill()
        for node in self.cluster.nodes.values():
            node.launch()

    async def _settle(self, cast: RemotingCast) -> None:
        """Wait until nothing is behind; what still is by then is a problem."""
        deadline_s = time.monotonic() + END_SECONDS_MAX
        while (  # noqa: ASYNC110  what is waited for has no event
            any(cast.behind()) and time.monotonic() < deadline_s
        ):
            await asyncio.sleep(LOOK_SECONDS)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def run_kills(kills: int, seed: int = 1) -> dict[str, object]:
    """Take a cluster of three through so many kills; returns the row."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-remoting-"))
    with ClusterProcess(directory, has_remoting=True, settings=CHECKED) as cluster:
        run = RemotingRun(cluster, Draws(seed))
        cast = asyncio.run(run.through(kills))
    if not run.problems:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "kills": run.done.total(),
        **_counts(cast),
        "verdict": "; ".join(run.problems[:5]) or "ok",
    }


def _counts(cast: RemotingCast) -> dict[str, int]:
    sends, notes, returned = cast.sends, cast.transactions, cast.puller.returned
    decided = Counter((one.is_commit, one.is_taken) for one in notes.decisions)
    return {
        "sent": sum(one.is_taken for one in sends),
        "delayed": sum(one.is_taken and one.delay_ms > 0 for one in sends),
        "transactions": sum(one.is_taken for one in notes.halves),
        "committed": decided[True, True],
        "rolled back": decided[False, True],
        "checks": notes.checks,
        "popped": len(cast.pops.handed),
        "again": sum(one.deliveries > 1 for one in cast.pops.handed),
        "acknowledged": sum(one.is_taken for one in cast.pops.settled),
        "sent back": sum(one.is_taken for one in returned),
    }


KILLS = KillQuestion("remoting_failovers", GOAL, run_kills)
run = KILLS.run


if __name__ == "__main__":
    end_with(lambda: KILLS.main(__doc__))
