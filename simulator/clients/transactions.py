"""Producers of transactions, and who reads what they commit; what must be true in the end.

    a transaction   is read whole, once, in the order of its producer; or not at all
    committed       it is read
    aborted         it is not, nor is what an administrator has aborted by a marker
    open            none is, once its time-out is over
    stable          never less than was told, where a partition has one member

Source: KIP-98; the workload of Elle (Kingsbury, Alvaro 2020) has lists for each key, too.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.administrators.transaction_tools import TransactionTools
from simulator.clients.reading.committed_reader import CommittedReader
from simulator.clients.transactor import PARTITIONS, TOPIC, Outcome, Told, Transactor
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, open_any, pause
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation

CREATE_TOPICS_VERSION = 4
_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
Start = Callable[[str, list[Coroutine[Any, Any, None]]], Process]


class Transactions:
    """All transactional ids of a run; `count` of them, of both versions in turn.

    `is_of_one`: each partition has one member, whose process may be killed and loses nothing.
    """

    def __init__(
        self, simulation: Simulation, world: ClientWorld, count: int, *, is_of_one: bool = False
    ) -> None:
        self._world = world
        self._random = simulation.random("transactions")
        self.transactors = [
            Transactor(
                world=world,
                name=f"tx{number}",
                random=simulation.random(f"tx{number}"),
                version=1 + number % 2,
            )
            for number in range(count)
        ]
        self.tools = TransactionTools(
            world=world,
            random=simulation.random("transaction-tools"),
            names=[one.name for one in self.transactors],
        )
        # Where records go from the disks, one reads all of them when most have gone.
        self.readers = [
            CommittedReader(
                world=world,
                name=name,
                random=simulation.random(name),
                is_late=is_late,
                is_of_one=is_of_one,
            )
            for name, is_late in (("committed-reader", False), ("late-reader", True))
            if world.apart or not is_late
        ]

    def start(self, start: Start) -> list[Process]:
        """Start them; returns the processes of those that write."""
        for reader in self.readers:
            start(reader.name, [reader.run()])
        writers = [start(one.name, [self._write(one)]) for one in self.transactors]
        return [*writers, start("transaction-tools", [self._write(self.tools)])]

    async def _write(self, one: Transactor | TransactionTools) -> None:
        configs = {**KEEPS_ALL, **self._world.apart}
        await create_topic(self._world, self._random, TOPIC, PARTITIONS, configs)
        await one.run()

    def stuck(self) -> Iterator[str]:
        """Name the producers that wait, and for what."""
        for one in self.transactors:
            if not one.is_idle:
                yield f"{one.name} waits: {one.link.last_error}"

    def judge(self) -> list[str]:
        """Return what was read and should not have been, and the reverse."""
        return [text for reader in self.readers for text in self._judge(reader)]

    def behind(self) -> list[str]:
        """Name what is open, or not read yet."""
        return [text for reader in self.readers for text in reader.behind()]

    def _judge(self, reader: CommittedReader) -> list[str]:
        findings: list[str] = []
        read = {place: Counter(map(_named, values)) for place, values in reader.read.items()}
        for transactions in (*[one.told for one in self.transactors], self.tools.told):
            for name, told in transactions.items():
                findings += _judged(name, told, read)
        for place, values in reader.read.items():
            findings += _out_of_order(place, values)
        return findings


KEEPS_ALL = {"retention.ms": "-1"}
"""The records of these clients have no time, so they are old at once."""


async def create_topic(
    world: ClientWorld,
    draw: Random,
    name: str,
    partitions: int,
    configs: Mapping[str, str] = KEEPS_ALL,
) -> None:
    """Create a topic; returns when it is there, or the run is over."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": -1,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in configs.items()],
    }
    fields = {"topics": [topic], "timeout": 5_000, "timeout_ms": 5_000, "validate_only": False}
    while not world.is_over:
        try:
            link = await open_any(world, draw)
            answer = await link.call(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, fields)
            link.close()
            if answer.topics[0].error_code in _THERE:
                return
        except LinkFailed:
            pass
        await pause(draw)


def _named(value: str) -> str:
    return value.split("/", maxsplit=1)[0]


def _judged(name: str, told: Told, read: dict[int, Counter[str]]) -> Iterator[str]:
    places = {place for place, counts in read.items() if counts[name]}
    if places and places != set(told.partitions):
        yield f"{name} of {told.partitions} ({told.outcome}) is read in {sorted(places)} only"
    elif told.outcome is Outcome.COMMITTED and not places:
        yield f"{name} was committed and is not read"
    elif told.outcome is Outcome.ABORTED and places:
        yield f"{name} was aborted and is read"


def _out_of_order(place: int, values: list[str]) -> Iterator[str]:
    """Each batch is whole, and the numbers of a producer rise."""
    newest: dict[str, int] = {}
    left: list[str] = []
    for value in values:
        if left and value != left.pop(0):
            yield f"{value} in partition {place} is out of order"
            return
        name, at, count = value.split("/")
        producer, _, number = name.rpartition("-")
        if at == "0":
            if int(number) <= newest.get(producer, -1):
                yield f"{value} in partition {place} comes again, or too late"
                return
            newest[producer] = int(number)
            left = [f"{name}/{each}/{count}" for each in range(1, int(count))]
