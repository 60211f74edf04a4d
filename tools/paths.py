"""How many modules and functions a request crosses, over all processes of a cluster.

    python -m tools.paths            counts for a produce with acks=all and for a topic's creation
    python -m tools.paths --list     and their names
    python -m tools.paths --max produce=30 --max create=45      exit code 1 where there are more

A simulated cluster of three nodes gets the request TIMES times, each in a span of virtual time of
its own; between them as many spans pass in which nobody asks anything. A function is on the path
when three of four spans with the request call it more often than any span without: so heartbeats,
which are in both, do not count, and a function that serves both does.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from penstock.cli.exit_codes import end_with
from penstock.client.produce_request import encode_produce
from penstock.controller.metadata.image import NO_MASTER
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record, build_batch
from simulator.clients.wire import BrokerLink
from simulator.kernel.simulation import Simulation, simulate
from simulator.run.cluster import SimCluster
from simulator.run.plan import Shape
from simulator.run.topology import KAFKA_PORT, WALL_START_MS

TIMES = 16
SPAN_SECONDS = 0.1
SEED = 1
ROOT = Path(__file__).resolve().parent.parent / "src" / "penstock"
LEFT_OUT = (("client",), ("base", "callbacks"))
"""What asks, and the stand-in for callbacks that nobody has set: nothing to read on a path."""
CREATE_VERSION, METADATA_VERSION, PRODUCE_VERSION = 4, 9, 8
TOPIC = "traced"


class Crossed(NamedTuple):
    """What one kind of request crosses."""

    modules: list[str]
    functions: list[str]


Calls = Counter[CodeType]
Ask = Callable[[int], Awaitable[None]]


class Counting:
    """Counts calls of functions below src/penstock."""

    def __init__(self) -> None:
        self.calls: Calls = Counter()

    @contextmanager
    def at_work(self) -> Iterator[Calls]:
        """Count while the block lasts; other tasks of the loop run in it too."""
        sys.setprofile(self._on_event)
        try:
            yield self.calls
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self.calls[frame.f_code] += 1


async def trace(ask: Ask) -> Crossed:
    """Return what is called for the request."""
    with_it, without = [], []
    for number in range(TIMES):
        with Counting().at_work() as calls:
            await asyncio.sleep(SPAN_SECONDS)
        without.append(calls)
        with Counting().at_work() as calls:
            await ask(number)
            await asyncio.sleep(SPAN_SECONDS)
        with_it.append(calls)
    codes = {code for calls in with_it for code in calls if _module(code)}
    found = [code for code in codes if _is_on_path(code, with_it, without)]
    functions = {f"{_module(code)}.{code.co_qualname}" for code in found}
    return Crossed(sorted({_module(code) for code in found}), sorted(functions))


def _is_on_path(code: CodeType, with_it: list[Calls], without: list[Calls]) -> bool:
    usual = max(calls[code] for calls in without)
    return sum(calls[code] > usual for calls in with_it) * 4 >= len(with_it) * 3


def _module(code: CodeType) -> str:
    """Return the dotted name of a module of the product, or nothing."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT):
        return ""
    parts = path.relative_to(ROOT).with_suffix("").parts
    is_left_out = any(parts[: len(one)] == one for one in LEFT_OUT)
    return "" if is_left_out else ".".join(parts)


async def _paths(simulation: Simulation, secret_file: Path) -> dict[str, Crossed]:
    cluster = SimCluster(simulation, Shape(), secret_file)
    cluster.start()
    await cluster.form()
    host = await _create(cluster, TOPIC)
    link = await BrokerLink.open(host, KAFKA_PORT)

    batches = [
        build_batch([Record(None, b"%d" % number, timestamp_ms=WALL_START_MS)])
        for number in range(TIMES)
    ]

    async def produce(number: int) -> None:
        batch = batches[number]
        link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *encode_produce({(TOPIC, 0): batch}, 1_000))
        await link.receive()

    async def create(number: int) -> None:
        await _create_topic(link, f"created-{number}")

    found = {"produce": await trace(produce), "create": await trace(create)}
    await _close(link)
    return found


async def _create(cluster: SimCluster, topic: str) -> str:
    """Make the topic; return the host of the leader of its partition."""
    any_host = next(iter(cluster.brokers.values()))
    link = await BrokerLink.open(any_host, KAFKA_PORT)
    await _create_topic(link, topic)
    while True:
        asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        answer = await link.call(ApiKey.METADATA, METADATA_VERSION, asked)
        partitions = answer.topics[0].partitions
        if partitions and partitions[0].leader_id != NO_MASTER:
            await _close(link)
            return cluster.brokers[partitions[0].leader_id]
        await asyncio.sleep(SPAN_SECONDS)


async def _close(link: BrokerLink) -> None:
    link.close()
    await asyncio.sleep(SPAN_SECONDS)


async def _create_topic(link: BrokerLink, topic: str) -> None:
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": -1}
    fields = {"topics": [wanted | {"assignments": [], "configs": []}], "timeout_ms": 5_000}
    answer = await link.call(ApiKey.CREATE_TOPICS, CREATE_VERSION, fields, wait_s=6.0)
    assert answer.topics[0].error_code == 0, answer


def measure() -> dict[str, Crossed]:
    """Return the path of each kind of request."""
    with tempfile.TemporaryDirectory() as directory:
        secret_file = Path(directory) / "secret"
        secret_file.write_bytes(b"a secret of a cluster that is traced\n")
        secret_file.chmod(0o600)
        return simulate(SEED, lambda simulation: _paths(simulation, secret_file)).value


def main() -> int:
    """Print the counts; return 1 where one is above its bound."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name modules and functions")
    parser.add_argument("--max", action="append", default=[], metavar="NAME=MODULES")
    given = parser.parse_args()
    bounds = {name: int(most) for name, _, most in (one.partition("=") for one in given.max)}
    found = measure()
    for name, path in found.items():
        bound = f" of at most {bounds[name]}" if name in bounds else ""
        print(f"{name}: {len(path.modules)} modules{bound}, {len(path.functions)} functions")
        if given.list:
            print("\n".join(f"  {function}" for function in path.functions))
    return int(any(len(found[name].modules) > most for name, most in bounds.items()))


if __name__ == "__main__":
    end_with(main)
