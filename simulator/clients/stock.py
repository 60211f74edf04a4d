"""An unmodified aiokafka producer and consumer inside the simulation.

They handle leaders, retries and sequences by themselves, as users' clients do. They take more CPU
than the simulator's own clients, so only some seeds have them.

Needs aiokafka, which only tests install. Groups and transactions are not used.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import KafkaError

from simulator.clients.world import ClientWorld, now_ns, pause
from simulator.history import Outcome, Poll, Send
from simulator.run.topology import KAFKA_PORT, TOPIC, WALL_START_MS

QUICK = {"request_timeout_ms": 2_000, "retry_backoff_ms": 50, "metadata_max_age_ms": 1_000}
RECORDS_PER_SECOND = 40
OPEN_MAX = 20
"""Records that wait for their answer before the producer is given more."""


def servers_of(world: ClientWorld) -> str:
    """Return the bootstrap list."""
    return ",".join(f"{host}:{KAFKA_PORT}" for host in world.brokers.values())


@dataclass(slots=True, kw_only=True)
class _Sent:
    """One record and what became of it."""

    value: str
    partition: int
    start_ns: int
    end_ns: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None


@dataclass(slots=True, kw_only=True)
class StockProducer:
    """One idempotent producer for all partitions."""

    world: ClientWorld
    name: str
    random: Random
    sent: list[_Sent] = field(default_factory=list)
    last_error: str = ""
    partition: str = "any"
    _waiting: dict[asyncio.Task[None], None] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was sent has its answer."""
        return not self._waiting

    def events(self) -> Iterator[Send]:
        """Return what the judge is to know."""
        for one in self.sent:
            yield Send(
                self.name,
                one.partition,
                one.value,
                one.start_ns,
                one.end_ns,
                one.outcome,
                one.offset,
            )

    async def run(self) -> None:
        """Write until asked to stop, then wait until every record is answered."""
        while not self.world.is_stopping:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers_of(self.world),
                acks="all",
                enable_idempotence=True,
                client_id=self.name,
                **QUICK,
            )
            try:
                await producer.start()
            except KafkaError as error:  # no broker can be reached now
                self.last_error = repr(error)
                await producer.stop()
                await pause(self.random)
                continue
            await self._write(producer)
            await asyncio.gather(*self._waiting)
            await producer.stop()

    async def _write(self, producer: AIOKafkaProducer) -> None:
        while not self.world.is_stopping:
            await asyncio.sleep(self.random.expovariate(RECORDS_PER_SECOND))
            if len(self._waiting) < OPEN_MAX and not self.world.is_stopping:
                await self._send(producer)

    async def _send(self, producer: AIOKafkaProducer) -> None:
        partition = self.random.randrange(self.world.partitions)
        value = f"{self.name}-{partition}-{len(self.sent)}"
        sent = _Sent(value=value, partition=partition, start_ns=now_ns())
        self.sent.append(sent)
        made_ms = WALL_START_MS + sent.start_ns // 1_000_000
        try:
            answer = await producer.send(
                TOPIC, value.encode(), partition=partition, timestamp_ms=made_ms
            )
        except KafkaError as error:  # it is not known whether it was taken
            self.last_error = repr(error)
            return
        task = asyncio.create_task(self._note(sent, answer))
        self._waiting[task] = None
        task.add_done_callback(self._waiting.pop)

    async def _note(self, one: _Sent, answer: "asyncio.Future[object]") -> None:
        try:
            found = await answer
        except KafkaError as error:
            self.last_error = repr(error)
            return
        one.end_ns, one.outcome = now_ns(), Outcome.ACKED
        offset = getattr(found, "offset", -1)
        one.offset = offset if offset >= 0 else None


@dataclass(slots=True, kw_only=True)
class StockConsumer:
    """A consumer of all partitions without a group."""

    world: ClientWorld
    name: str
    random: Random

    async def run(self) -> None:
        """Read until the run is over."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers_of(self.world),
            auto_offset_reset="earliest",
            client_id=self.name,
            fetch_max_wait_ms=300,
            **QUICK,
        )
        while not self.world.is_over:
            try:
                await consumer.start()
                break
            except KafkaError:
                await pause(self.random)
        partitions = [TopicPartition(TOPIC, one) for one in range(self.world.partitions)]
        consumer.assign(partitions)
        while not self.world.is_over:
            await self._poll(consumer)
        await consumer.stop()

    async def _poll(self, consumer: AIOKafkaConsumer) -> None:
        begun_ns = now_ns()
        try:
            found = await consumer.getmany(timeout_ms=300)
        except KafkaError:
            await pause(self.random)
            return
        for place, records in found.items():
            read = [(record.offset, record.value.partition(b".")[0].decode()) for record in records]
            self.world.polls.append(Poll(self.name, place.partition, read, begun_ns, now_ns()))
