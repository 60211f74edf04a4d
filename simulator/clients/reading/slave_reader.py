"""A consumer that reads where it is sent: from a slave, and from the leader again (KIP-392).

    leader ─ "read from broker 2" ─► broker 2 ─ it lags, follows nobody, is gone ─► leader

It is judged like other followers: what a slave hands out is confirmed, in order and without gaps.
"""

from dataclasses import dataclass
from typing import Any

from penstock.client.fetch import FetchedPartition
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.readers import Reader
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import find_leader, now_ns, open_link, pause
from simulator.run.topology import TOPIC

FETCH_VERSION = 11
"""The first in which a preferred replica is named."""
WAIT_MS = 200
HOME_SHARE = 0.1
"""How often it asks the leader again, as clients do whose metadata is old."""
AGAIN_SHARE = 0.05
"""How often it begins anew: records from long ago are those that slaves are asked for."""
NOBODY = -1


@dataclass(slots=True, kw_only=True)
class SlaveReader(Reader):
    """See the module."""

    partition: int
    rack: str

    async def run(self) -> None:
        """Read until the run is over."""
        sent_to = NOBODY
        while not self.world.is_over:
            try:
                at_slave = sent_to != NOBODY
                broker_id = sent_to
                if not at_slave:
                    broker_id = await find_leader(self.world, self.random, self.partition)
                link = await open_link(self.world, broker_id)
                try:
                    self.forget_lost()
                    sent_to = await self._read_from(link, at_slave=at_slave)
                finally:
                    link.close()
            except LinkFailed:
                sent_to = NOBODY
                await pause(self.random)

    async def _read_from(self, link: BrokerLink, *, at_slave: bool) -> int:
        """Read there; return where it is sent, or NOBODY to ask the leader. Raises LinkFailed."""
        while not self.world.is_over:
            if self._place(self.partition).is_lost:
                if at_slave:
                    return NOBODY
                await self.list_starts(link, [self.partition])
            if self.random.random() < AGAIN_SHARE:
                self._place(self.partition).is_lost = False
                await self._begin_again(link, at_slave=at_slave)
            error, sent_to = await self._fetch_once(link)
            if sent_to != NOBODY:
                return sent_to
            if error not in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
                if not at_slave:
                    raise link.broken(error.name)
                return NOBODY
            if at_slave and self.random.random() < HOME_SHARE:
                return NOBODY
        return NOBODY

    async def _begin_again(self, link: BrokerLink, *, at_slave: bool) -> None:
        """Read from the beginning, as a new consumer does; only the leader says where that is."""
        if at_slave:
            return
        starts = await self.list_starts(link, [self.partition])
        if self.partition in starts:
            place = self._place(self.partition)
            place.offset, place.is_fresh = starts[self.partition], True

    async def _fetch_once(self, link: BrokerLink) -> tuple[ErrorCode, int]:
        begun_ns = now_ns()
        answer = await link.call(ApiKey.FETCH, FETCH_VERSION, self._fields())
        (told,) = [one for topic in answer.responses for one in topic.partitions]
        error = ErrorCode(told.error_code)
        data = memoryview(told.records or b"")
        start, end = told.log_start_offset, told.high_watermark
        self._note(FetchedPartition(TOPIC, self.partition, error, end, start, data), begun_ns)
        return error, int(told.preferred_read_replica)

    def _fields(self) -> dict[str, Any]:
        wanted = {
            "partition": self.partition,
            "current_leader_epoch": -1,
            "fetch_offset": self._place(self.partition).offset,
            "log_start_offset": -1,
            "partition_max_bytes": 16 << 10,
        }
        return {
            "replica_id": -1,
            "max_wait": WAIT_MS,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": TOPIC, "partitions": [wanted]}],
            "forgotten_topics_data": [],
            "rack_id": self.rack,
        }
