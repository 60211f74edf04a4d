"""A producer that sends with an epoch that a newer one has replaced.

    epoch e: a batch ─► epoch e + 1: a batch, acknowledged ─► epoch e again: must be refused

Producers without transactions raise their epoch by themselves (KIP-360). If the last batch
succeeds, the history has it like any other, and the judge reports a zombie write.
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
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, find_leader, now_ns, open_link, pause
from simulator.history import Outcome, Send
from simulator.run.topology import TOPIC, WALL_START_MS

GOOD = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
PAUSES_BETWEEN = 3


@dataclass(slots=True, kw_only=True)
class Zombie:
    """Writes to one partition, a batch of one record at a time, and repeats none."""

    world: ClientWorld
    name: str
    partition: int
    random: Random
    last_error: str = ""
    refused: int = 0
    """How often a batch of a replaced epoch was refused, as it should."""
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
        first = await self._write(producer_id, epoch, 0)
        newer = await self._write(producer_id, epoch + 1, 0)
        if first in GOOD and newer in GOOD:
            is_late = await self._write(producer_id, epoch, 1)
            self.refused += is_late is ErrorCode.INVALID_PRODUCER_EPOCH

    async def _write(self, producer_id: int, epoch: int, sequence: int) -> ErrorCode:
        number, begun_ns = len(self._sends), now_ns()
        name = f"{self.name}-{producer_id}"
        value = f"{self.name}-{self.partition}-{number}"
        self._sends.append(
            Send(
                name,
                self.partition,
                value,
                begun_ns,
                None,
                Outcome.UNKNOWN,
                None,
                producer_epoch=epoch,
            )
        )
        made_ms = WALL_START_MS + begun_ns // 1_000_000
        data = bytearray(build_batch([Record(None, value.encode(), timestamp_ms=made_ms)]))
        stamp_producer(
            memoryview(data),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        error, offset = await self._send(bytes(data))
        if error in GOOD:
            self._sends[number] = self._sends[number]._replace(
                end_ns=now_ns(), outcome=Outcome.ACKED, offset=offset if offset >= 0 else None
            )
        return error

    async def _send(self, data: bytes) -> tuple[ErrorCode, int]:
        leader = await find_leader(self.world, self.random, self.partition)
        link = await open_link(self.world, leader)
        try:
            body = encode_produce({(TOPIC, self.partition): data}, BROKER_TIMEOUT_MS)
            link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
            frame, at = await link.receive()
        finally:
            link.close()
        answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
        partition_response = answer.responses[0].partition_responses[0]
        return ErrorCode(partition_response.error_code), int(partition_response.base_offset)
