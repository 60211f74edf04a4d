"""A producer that violates the rules of sequence numbers, and checks the answers.

    batches 0, 1, 2 … ─► DescribeProducers         tells the last of them, and the epoch
                      ─► one of them again         answered with the offset that it had
                      ─► one that leaves a gap     refused: OUT_OF_ORDER_SEQUENCE_NUMBER
                      ─► a newer epoch, not from 0 refused: OUT_OF_ORDER_SEQUENCE_NUMBER
                      ─► a newer epoch, from 0     stored behind all that the epoch before stored,
                                                   and known again at that offset

After another error (not the leader, a time-out) the round ends. Stored records are part of the
history like all others, and requests without an answer stay open. An error other than the rule's
is not a violation.

Source: KIP-98 (sequences), KIP-360 (epochs of idempotent producers); docs/adr/0024.
"""

from dataclasses import dataclass, field
from random import Random

from penstock.client.produce_request import encode_produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response
from penstock.record.batch import stamp_producer
from penstock.record.build import Record, build_batch
from simulator.clients.producer import BROKER_TIMEOUT_MS, PRODUCE_VERSION, ask_for_id
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, now_ns, open_link, pause
from simulator.history import Outcome, Send
from simulator.run.topology import TOPIC, WALL_START_MS

DESCRIBE_PRODUCERS_VERSION = 0
REMEMBERED = 5
"""Batches of a producer that a broker knows again."""
BATCHES_MAX = 4
GAPS = (1, 2, 5)
PAUSES_BETWEEN = 8

_STORED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

assert BATCHES_MAX <= REMEMBERED


@dataclass(slots=True, kw_only=True)
class Sequences:
    """Writes to one partition, a batch of one record at a time."""

    world: ClientWorld
    name: str
    partition: int
    random: Random
    last_error: str = ""
    rounds: int = 0
    """How often all four rules were tried."""
    refused: int = 0
    """Batches that were out of order and were refused as such."""
    _sends: list[Send] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Nothing of it is waited for: what has no answer is left open."""
        return True

    def events(self) -> list[Send]:
        """Return what the judge is to know."""
        return self._sends

    async def run(self) -> None:
        """Go on until told to stop; each round has a producer id of its own."""
        while not self.world.is_stopping and not self.world.is_over:
            try:
                await self._round()
            except LinkFailed as error:
                self.last_error = str(error)
            for _ in range(PAUSES_BETWEEN):
                await pause(self.random)

    async def _round(self) -> None:
        producer_id, epoch = await ask_for_id(self.world, self.random)
        if producer_id < 0:
            return
        leader = await find_leader(self.world, self.random, self.partition)
        link = await open_link(self.world, leader)
        try:
            await self._break_rules(_Producer(self, link, producer_id, epoch))
        finally:
            link.close()

    async def _break_rules(self, producer: "_Producer") -> None:
        """Raises LinkFailed where the broker does not answer for the partition any more."""
        count = self.random.randint(1, BATCHES_MAX)
        offsets = [await producer.store(sequence) for sequence in range(count)]
        await producer.must_be_told_of(count - 1)
        again = self.random.randrange(count)
        await producer.repeat(again, offsets[again])
        await producer.must_not_store(count + self.random.choice(GAPS), "leaves a gap")
        producer.epoch += 1
        await producer.must_not_store(self.random.choice(GAPS), "does not begin its epoch")
        newer = await producer.store(0)
        if 0 <= newer <= max(offsets):
            self.complain(producer, f"a newer epoch's first batch is said to be at {newer}")
        await producer.must_be_told_of(0)
        await producer.repeat(0, newer)
        self.rounds += 1

    def note(self, send: Send) -> int:
        """Write down a record that is about to be sent; returns its number."""
        self._sends.append(send)
        return len(self._sends) - 1

    def is_stored(self, number: int, offset: int) -> None:
        """Write down that it was acknowledged."""
        self._sends[number] = self._sends[number]._replace(
            end_ns=now_ns(), outcome=Outcome.ACKED, offset=offset if offset >= 0 else None
        )

    def complain(self, producer: "_Producer", text: str) -> None:
        """Note an answer that may not be given."""
        self.world.refuse(f"{self.name} in partition {self.partition}: {text}", producer.link.host)


@dataclass(slots=True)
class _Producer:
    """One producer id on one connection."""

    owner: Sequences
    link: BrokerLink
    producer_id: int
    epoch: int
    batches: dict[int, bytes] = field(default_factory=dict)
    """Sequence -> bytes, of the present epoch."""

    async def store(self, sequence: int) -> int:
        """Write the batch that is next; returns its offset. Raises LinkFailed."""
        number, data = self._make(sequence)
        self.batches[sequence] = data
        error, offset = await self._send(data)
        if error not in _STORED:
            raise self.link.broken(f"produce: {error.name}")
        self.owner.is_stored(number, offset)
        return offset

    async def repeat(self, sequence: int, offset: int) -> None:
        """Write a batch again."""
        error, told = await self._send(self.batches[sequence])
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or (error in _STORED and told != offset):
            self.owner.complain(self, f"a batch at {offset} is answered {error.name}, {told}")

    async def must_not_store(self, sequence: int, why: str) -> None:
        """Write a batch that may not be stored."""
        number, data = self._make(sequence)
        error, offset = await self._send(data)
        self.owner.refused += error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if error in _STORED:
            self.owner.is_stored(number, offset)
            self.owner.complain(self, f"a batch that {why} is stored at {offset}")

    async def must_be_told_of(self, sequence: int) -> None:
        """Ask who has written to the partition; the last batch of this one has `sequence`."""
        wanted = {"name": TOPIC, "partition_indexes": [self.owner.partition]}
        key = ApiKey.DESCRIBE_PRODUCERS
        answer = await self.link.call(key, DESCRIBE_PRODUCERS_VERSION, {"topics": [wanted]})
        partition = answer.topics[0].partitions[0]
        if partition.error_code != ErrorCode.NONE:
            return
        known = {
            each.producer_id: (each.producer_epoch, each.last_sequence)
            for each in partition.active_producers
        }
        told = known.get(self.producer_id)
        if told != (self.epoch, sequence):
            self.owner.complain(self, f"after {self.epoch, sequence} a producer is told as {told}")

    def _make(self, sequence: int) -> tuple[int, bytes]:
        owner, begun_ns = self.owner, now_ns()
        name = f"{owner.name}-{self.producer_id}"
        value = f"{name}-{self.epoch}-{sequence}"
        send = Send(
            name,
            owner.partition,
            value,
            begun_ns,
            None,
            Outcome.UNKNOWN,
            None,
            producer_epoch=self.epoch,
        )
        number = owner.note(send)
        made_ms = WALL_START_MS + begun_ns // 1_000_000
        data = bytearray(build_batch([Record(None, value.encode(), timestamp_ms=made_ms)]))
        stamp_producer(
            memoryview(data),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
        )
        return number, bytes(data)

    async def _send(self, data: bytes) -> tuple[ErrorCode, int]:
        body = encode_produce({(TOPIC, self.owner.partition): data}, BROKER_TIMEOUT_MS)
        self.link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
        frame, at = await self.link.receive()
        answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
        partition_response = answer.responses[0].partition_responses[0]
        return ErrorCode(partition_response.error_code), int(partition_response.base_offset)
