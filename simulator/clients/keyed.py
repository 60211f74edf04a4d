"""A writer of few keys to a topic that is compacted, and what every reader must find in the end.

    write ─► answered? ─► next        no answer, or an error: the same bytes again, at the leader
      deletes among the values; one batch is under way at a time, so the order is known

Its topic shares replica sets, and so segments, with the topic of the history.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

from penstock.client.produce_request import encode_produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response
from penstock.record.batch import stamp_producer
from penstock.record.build import Record, build_batch
from simulator.clients.producer import BROKER_TIMEOUT_MS, PRODUCE_VERSION, ask_for_id
from simulator.clients.transactions import create_topic
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, now_ns, open_link, pause
from simulator.run.topology import WALL_START_MS

TOPIC = "keyed"
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "300",
    "max.compaction.lag.ms": "1500",
}
HOT_KEYS, COLD_KEYS = 6, 300
COLD_SHARE = 0.3
"""The last values of some keys are old, so that they have come through many passes."""
RECORDS_MAX = 8
VALUE_BYTES_MAX = 900
DELETED_SHARE = 0.15
BATCHES_PER_SECOND = 40

_GOOD = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

Values = dict[bytes, bytes]


@dataclass(slots=True, kw_only=True)
class KeyedWriter:
    """The only writer of its topic, which has one partition."""

    world: ClientWorld
    random: Random
    values: Values = field(default_factory=dict)
    """What a read from the beginning ends in, once all is answered."""
    written: int = 0
    """Records that were acknowledged."""
    last_error: str = ""
    is_idle: bool = True
    _producer: tuple[int, int] = (-1, -1)
    _next_sequence: int = 0

    async def run(self) -> None:
        """Write until asked to stop; what was begun is brought to its end."""
        await create_topic(self.world, self.random, TOPIC, 1, CONFIGS)
        while self._producer[0] < 0 and not self.world.is_over:
            try:
                self._producer = await ask_for_id(self.world, self.random)
            except LinkFailed as error:
                self.last_error = str(error)
                await pause(self.random)
        while not self.world.is_stopping:
            await self._write(self._records())
            await asyncio.sleep(self.random.expovariate(BATCHES_PER_SECOND))

    def _records(self) -> list[Record]:
        made_ms = WALL_START_MS + now_ns() // 1_000_000
        return [
            Record(self._key(), self._value(), timestamp_ms=made_ms)
            for _ in range(self.random.randint(1, RECORDS_MAX))
        ]

    def _key(self) -> bytes:
        if self.random.random() < COLD_SHARE:
            return b"cold-%d" % self.random.randrange(COLD_KEYS)
        return b"hot-%d" % self.random.randrange(HOT_KEYS)

    def _value(self) -> bytes | None:
        if self.random.random() < DELETED_SHARE:
            return None
        return self.random.randbytes(self.random.randrange(VALUE_BYTES_MAX))

    async def _write(self, records: list[Record]) -> None:
        data = bytearray(build_batch(records))
        stamp_producer(
            memoryview(data),
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._next_sequence,
        )
        self.is_idle = False
        while not await self._is_taken(bytes(data)):
            if self.world.is_over:
                return
            await pause(self.random)
        self.is_idle = True
        self._next_sequence += len(records)
        self.written += len(records)
        for record in records:
            assert record.key is not None
            if record.value is None:
                self.values.pop(record.key, None)
            else:
                self.values[record.key] = record.value

    async def _is_taken(self, data: bytes) -> bool:
        try:
            leader = await find_leader(self.world, self.random, 0, topic=TOPIC)
            link = await open_link(self.world, leader)
            try:
                return await self._send(link, data)
            finally:
                link.close()
        except LinkFailed as error:
            self.last_error = str(error)
            return False

    async def _send(self, link: BrokerLink, data: bytes) -> bool:
        body = encode_produce({(TOPIC, 0): data}, BROKER_TIMEOUT_MS)
        link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
        frame, at = await link.receive()
        answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
        code = answer.responses[0].partition_responses[0].error_code
        if code not in _GOOD:
            self.last_error = ErrorCode(code).name
        return code in _GOOD
