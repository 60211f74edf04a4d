"""A client that notes all that it does, under a client id of its own for each connection.

    visit   leader of a partition ─► batches, single ones and several together; a broken one now
            and then; metadata, a topic that there is not ─► away

Source: docs/formats/audit.md for what counts where.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from penstock.client.produce_request import encode_produce
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response, encode_request
from penstock.record.build import Record, build_batch
from simulator.clients.producer import BROKER_TIMEOUT_MS, PRODUCE_VERSION
from simulator.clients.transactions import create_topic
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import (
    METADATA_VERSION,
    ClientWorld,
    find_leader,
    open_link,
    pause,
)
from simulator.history.audit import Visit, What

TOPIC = "audited"
PARTITIONS = 3
NO_TOPIC = "nobody's"
VISITS = (3, 10)
"""Turns of a visit."""
TOGETHER = (1, 1, 2, 4)
RECORDS = (1, 5)
VALUE_BYTES = 200
BROKEN_SHARE = 0.1
OTHER_SHARE = 0.3
TURN_SECONDS = (0.01, 0.25)
CRC_AT = 17
"""Of a batch."""
OWN = What("produce")
"""Rows of whole requests."""


@dataclass(slots=True, kw_only=True)
class Visitor:
    """See the module."""

    world: ClientWorld
    name: str
    random: Random
    visits: list[Visit] = field(default_factory=list)

    async def run(self) -> None:
        """Come and go until told to stop."""
        await create_topic(self.world, self.random, TOPIC, PARTITIONS)
        while not self.world.is_stopping and not self.world.is_over:
            with suppress(LinkFailed):
                await self._visit(self.random.randrange(PARTITIONS))
            await pause(self.random)

    async def _visit(self, partition: int) -> None:
        leader = await find_leader(self.world, self.random, partition, topic=TOPIC)
        link = await open_link(self.world, leader)
        link.client_id = f"{self.name}-{len(self.visits)}"
        clock = asyncio.get_running_loop().time
        visit = Visit(client_id=link.client_id, node=leader, began_s=clock())
        self.visits.append(visit)
        try:
            for _ in range(self.random.randint(*VISITS)):
                if self.world.is_stopping:
                    break
                await self._turn(link, visit, partition)
                await asyncio.sleep(self.random.uniform(*TURN_SECONDS))
        finally:
            link.close()
            visit.ended_s = clock()

    async def _turn(self, link: BrokerLink, visit: Visit, partition: int) -> None:
        if self.random.random() < OTHER_SHARE:
            await self._ask(link, visit)
        elif self.random.random() < BROKEN_SHARE:
            await self._nowhere(link, visit)
        else:
            await self._write(link, visit, partition)

    async def _ask(self, link: BrokerLink, visit: Visit) -> None:
        fields = {
            "topics": [{"name": TOPIC}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        what = What("metadata")
        body = encode_request(ApiKey.METADATA, METADATA_VERSION, fields)
        counts = {"requests": 1, "bytes_in": link.send(ApiKey.METADATA, METADATA_VERSION, body)}
        visit.sent(what, counts)
        await link.receive()
        visit.answered(what, counts)

    async def _nowhere(self, link: BrokerLink, visit: Visit) -> None:
        """Write to a topic that there is not: an error in the client's own row."""
        data = bytes(build_batch([Record(None, b"not wanted")]))
        body = encode_produce({(NO_TOPIC, 0): data}, BROKER_TIMEOUT_MS)
        size = link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
        counts = {"requests": 1, "bytes_in": size, "errors": 1}
        visit.sent(OWN, counts)
        await link.receive()
        visit.answered(OWN, counts)

    async def _write(self, link: BrokerLink, visit: Visit, partition: int) -> None:
        what = What("produce", TOPIC, partition)
        count = self.random.choice(TOGETHER)
        sent = [self._send(link, visit, what) for _ in range(count)]
        for own, batch in sent:
            frame, at = await link.receive()
            answer = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame, at)
            code = answer.responses[0].partition_responses[0].error_code
            visit.answered(OWN, own)
            if code == ErrorCode.NONE:
                visit.answered(what, batch)
            elif code == ErrorCode.CORRUPT_MESSAGE:
                visit.answered(what, {"errors": 1})
            else:
                raise link.broken(f"produce: {code!r}")

    def _send(
        self, link: BrokerLink, visit: Visit, what: What
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return what counts for the client, and what for the partition if it is taken."""
        value = b"x" * self.random.randint(1, VALUE_BYTES)
        records = [Record(None, value)] * self.random.randint(*RECORDS)
        data = bytearray(build_batch(records))
        if self.random.random() < BROKEN_SHARE:
            data[CRC_AT] ^= 1
        body = encode_produce({(TOPIC, what.partition): bytes(data)}, BROKER_TIMEOUT_MS)
        size = link.send(ApiKey.PRODUCE, PRODUCE_VERSION, *body)
        own = {"requests": 1, "bytes_in": size}
        batch = {"requests": 1, "records": len(records), "bytes_in": len(data)}
        visit.sent(OWN, own)
        visit.sent(what, {**batch, "errors": 1})
        return own, batch
