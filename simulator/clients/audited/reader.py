"""Reads the rows of the audit, once nobody does anything that is compared with them any more."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.audit.row import TOPIC as AUDIT
from penstock.client.errors import ClientError
from penstock.client.fetch import FetchOptions, FetchWant, encode_fetch, parse_fetch
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from simulator.clients.audited.visitor import Visitor
from simulator.clients.readers import FETCH_VERSION
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import METADATA_VERSION, NO_LEADER, ClientWorld, open_any, open_link
from simulator.history.audit import Book, judge, missing

LOOK_SECONDS = 0.3
_AT_ONCE = FetchOptions(partition_bytes_max=64 << 10, bytes_min=0, wait_ms=0)


@dataclass(slots=True, kw_only=True)
class RowReader:
    """See the module."""

    world: ClientWorld
    random: Random
    visitors: list[Visitor]
    book: Book = field(default_factory=Book)
    looks: int = 0
    """Times that every partition was read to its end."""
    _places: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Read until the run is over."""
        while not self.world.is_over:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.world.is_stopping:
                continue
            try:
                await self._read()
            except LinkFailed:
                continue
            self.looks += 1

    def behind(self, counts_on: Callable[[int, float], bool]) -> Iterator[str]:
        """Name what is not written yet, of what processes count that live on and may write.

        `counts_on` tells this of a broker and the time at which it was visited.
        """
        if not self.looks:
            yield "the rows of the audit are not read"
        for one in self.visitors:
            for visit in one.visits:
                if counts_on(visit.node, visit.began_s) and (why := missing(self.book, visit)):
                    yield f"row of {why}"

    def judge(self) -> list[str]:
        """Return what is wrong with the rows."""
        visits = [visit for one in self.visitors for visit in one.visits]
        return [f"audit: {text}" for text in judge(self.book, visits)]

    async def _read(self) -> None:
        for leader, partitions in (await self._leaders()).items():
            link = await open_link(self.world, leader)
            try:
                while await self._read_from(link, partitions):
                    pass
            finally:
                link.close()

    async def _leaders(self) -> dict[int, list[int]]:
        """Return partitions by their leaders; all of them have one. Raises LinkFailed."""
        fields = {
            "topics": [{"name": AUDIT}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        link = await open_any(self.world, self.random)
        try:
            answer: Any = await link.call(ApiKey.METADATA, METADATA_VERSION, fields)
        finally:
            link.close()
        found: dict[int, list[int]] = {}
        for partition in answer.topics[0].partitions:
            found.setdefault(partition.leader_id, []).append(partition.partition_index)
        if NO_LEADER in found or not found:
            raise LinkFailed("nobody leads some partition")
        return found

    async def _read_from(self, link: BrokerLink, partitions: list[int]) -> bool:
        """Read what follows in these; returns whether there was something. Raises LinkFailed."""
        wants = [FetchWant(AUDIT, each, self._places.get(each, 0)) for each in partitions]
        link.send(ApiKey.FETCH, FETCH_VERSION, encode_fetch(FETCH_VERSION, wants, _AT_ONCE))
        frame, at = await link.receive()
        try:
            answers = parse_fetch(FETCH_VERSION, frame, at)
        except ClientError as error:
            raise link.broken(str(error)) from error
        has_more = False
        for answer in answers:
            if answer.error is not ErrorCode.NONE:
                raise link.broken(answer.error.name)
            for _, batch in iter_batches(answer.data):
                for record in iter_records(batch):
                    if record.offset >= self._places.get(answer.partition, 0):
                        self._places[answer.partition] = record.offset + 1
                        assert record.key is not None
                        assert record.value is not None
                        self.book.add(bytes(record.key), bytes(record.value))
                        has_more = True
        return has_more
