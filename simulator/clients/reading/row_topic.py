"""Reads an internal topic of rows, all partitions from their leaders, a record once."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.client.errors import ClientError
from penstock.client.fetch import FetchOptions, FetchWant, encode_fetch, parse_fetch
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from simulator.clients.readers import FETCH_VERSION
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import METADATA_VERSION, NO_LEADER, ClientWorld, open_any, open_link
from simulator.history.rows import Add, Arrivals

_AT_ONCE = FetchOptions(partition_bytes_max=64 << 10, bytes_min=0, wait_ms=0)


@dataclass(slots=True, kw_only=True)
class RowTopicReader:
    """See the module."""

    world: ClientWorld
    random: Random
    topic: str
    add: Add
    """Takes the key and the value of each record, as Arrivals hand them over."""
    _places: dict[int, int] = field(default_factory=dict)
    _arrivals: Arrivals = field(default_factory=Arrivals)

    async def read(self) -> None:
        """Read every partition to its end. Raises LinkFailed, after a part of it."""
        self._arrivals.begin()
        for leader, partitions in (await self._leaders()).items():
            link = await open_link(self.world, leader)
            try:
                while await self._read_from(link, partitions):
                    pass
            finally:
                link.close()
        self._arrivals.end(self.add)

    async def _leaders(self) -> dict[int, list[int]]:
        """Return partitions by their leaders; all of them have one. Raises LinkFailed."""
        fields = {
            "topics": [{"name": self.topic}],
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
        wants = [FetchWant(self.topic, each, self._places.get(each, 0)) for each in partitions]
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
                        self._arrivals.note(bytes(record.key), bytes(record.value))
                        has_more = True
        return has_more
