"""A small and fast idempotent producer: sequences, a pipeline, retries of everything.

    lane (one partition) ─► leader ─► burst of batches ─► answers in order
          ▲                                                  │ error or silence
          └── every batch without a good answer, same bytes ◄┘

A lane has up to `pipeline` batches in flight. After any error the connection is closed, the leader
looked up, and every batch without success is sent again in order with the same sequences. No batch
may be refused as out of order, not even one behind a refused batch: librdkafka would begin a new
epoch and write twice, and other clients would fail.

Source: KIP-98, and Kafka's Sender with several requests in flight. No transactions.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from penstock.client.produce_request import encode_produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response
from penstock.record.batch import stamp_producer
from penstock.record.build import Record, build_batch
from simulator.clients.readers import content_of
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, now_ns, open_any, open_link, pause
from simulator.history import Content, Outcome, Send
from simulator.run.plan import Shape
from simulator.run.topology import TOPIC, WALL_START_MS

PRODUCE_VERSION = 8
INIT_PRODUCER_ID_VERSION = 4
BATCH_RECORDS_MAX = 4
KEYS = 3
"""Of one partition; all of a batch have the same."""
PADDING_BYTES_MAX = 400
LARGE_SHARE = 0.03
"""Share of batches that are written past the staging buffer."""
LARGE_BYTES = 9_000
BROKER_TIMEOUT_MS = 1_000

COMPLAINTS_MAX = 20

_GOOD = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_NEVER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(slots=True)
class _Batch:
    """A sealed batch on its way."""

    name: str
    values: list[str]
    contents: list[Content]
    key: str
    data: bytes
    start_ns: int
    end_ns: int | None = None
    base_offset: int | None = None

    def sends(self, producer: str, partition: int) -> Iterator[Send]:
        """Return one event for each record."""
        outcome = Outcome.UNKNOWN if self.end_ns is None else Outcome.ACKED
        for number, value in enumerate(self.values):
            offset = None if self.base_offset is None else self.base_offset + number
            yield Send(
                producer,
                partition,
                value,
                self.start_ns,
                self.end_ns,
                outcome,
                offset,
                key=self.key,
                batch=self.name,
                content=self.contents[number],
            )


@dataclass(slots=True, kw_only=True)
class Lane:
    """One producer's records of one partition."""

    world: ClientWorld
    shape: Shape
    name: str
    partition: int
    random: Random
    producer_id: int = -1
    producer_epoch: int = -1
    batches: list[_Batch] = field(default_factory=list)
    """All there ever were, in order of sending."""
    unacked: deque[_Batch] = field(default_factory=deque)
    next_sequence: int = 0
    last_error: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether everything that was sent has its answer."""
        return not self.unacked

    def acked(self) -> int:
        """Count acknowledged records."""
        return sum(len(batch.values) for batch in self.batches if batch.end_ns is not None)

    def events(self) -> Iterator[Send]:
        """Return what the judge is to know."""
        for batch in self.batches:
            yield from batch.sends(self.name, self.partition)

    async def run(self) -> None:
        """Write until asked to stop, then wait until every batch is answered."""
        await self._begin()
        while not self.world.is_over and not (self.world.is_stopping and self.is_idle):
            try:
                leader = await find_leader(self.world, self.random, self.partition)
                link = await open_link(self.world, leader)
                try:
                    await self._write_to(link)
                finally:
                    link.close()
            except LinkFailed as error:
                self.last_error = str(error)
            await pause(self.random)

    async def _begin(self) -> None:
        """Get a producer id of the lane's own: answers of lanes need not wait for each other."""
        while self.producer_id < 0 and not self.world.is_over:
            try:
                found = await ask_for_id(self.world, self.random)
                self.producer_id, self.producer_epoch = found
            except LinkFailed as error:
                self.last_error = str(error)
            if self.producer_id < 0:
                await pause(self.random)

    async def _write_to(self, link: BrokerLink) -> None:
        """Send again what has no answer, then go on. Raises LinkFailed after any trouble."""
        for batch in self.unacked:
            self._send(link, batch)
        await self._settle(link)
        while not self.world.is_stopping and not self.world.is_over:
            await asyncio.sleep(self.random.expovariate(self.shape.records_per_second / 2))
            if self.world.is_stopping:
                return
            for _ in range(self.random.randint(1, self.shape.pipeline)):
                self._send(link, self._make())
            await self._settle(link)

    async def _settle(self, link: BrokerLink) -> None:
        error = ""
        while link.in_flight:
            frame, at = await link.receive()
            answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
            partition_response = answer.responses[0].partition_responses[0]
            if partition_response.error_code in _NEVER:
                told = (
                    f"{ErrorCode(partition_response.error_code).name} after {error or 'no error'}"
                )
                self._complain(told, link.host)
            if partition_response.error_code not in _GOOD:
                error = error or ErrorCode(partition_response.error_code).name
            if error:
                continue
            batch = self.unacked.popleft()
            batch.end_ns = now_ns()
            batch.base_offset = (
                partition_response.base_offset if partition_response.base_offset >= 0 else None
            )
        if error:
            raise link.broken(f"produce: {error}")

    def _complain(self, told: str, host: str) -> None:
        if len(self.world.refusals) < COMPLAINTS_MAX:
            text = f"{self.name} was told {told} in partition {self.partition}"
            self.world.refuse(text, host)

    def _send(self, link: BrokerLink, batch: _Batch) -> None:
        body = encode_produce({(TOPIC, self.partition): batch.data}, BROKER_TIMEOUT_MS)
        link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)

    def _make(self) -> _Batch:
        count = self.random.randint(1, BATCH_RECORDS_MAX)
        number = len(self.batches)
        values = [f"{self.name}-{self.partition}-{number}-{one}" for one in range(count)]
        padding = self.random.randrange(PADDING_BYTES_MAX)
        if self.random.random() < LARGE_SHARE:
            padding = LARGE_BYTES // count
        filler = "." + "x" * padding
        start_ns = now_ns()
        made_ms = WALL_START_MS + start_ns // 1_000_000
        key = f"{self.partition}-{number % KEYS}"
        records = [
            Record(key.encode(), (value + filler).encode(), timestamp_ms=made_ms)
            for value in values
        ]
        contents = [content_of(made_ms, record.value) for record in records]
        data = bytearray(build_batch(records))
        stamp_producer(
            memoryview(data),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.next_sequence,
        )
        self.next_sequence += count
        batch = _Batch(values[0], values, contents, key, bytes(data), start_ns)
        self.batches.append(batch)
        self.unacked.append(batch)
        return batch


async def ask_for_id(world: ClientWorld, draw: Random) -> tuple[int, int]:
    """Ask any broker for a producer id and its epoch; -1 for none now. Raises LinkFailed."""
    link = await open_any(world, draw)
    try:
        answer = await link.call(
            ApiKey.INIT_PRODUCER_ID,
            INIT_PRODUCER_ID_VERSION,
            {
                "transactional_id": None,
                "transaction_timeout": 1_000,
                "transaction_timeout_ms": 1_000,
                "producer_id": -1,
                "producer_epoch": -1,
            },
        )
    finally:
        link.close()
    if answer.error_code != ErrorCode.NONE:
        return -1, -1
    return int(answer.producer_id), int(answer.producer_epoch)
