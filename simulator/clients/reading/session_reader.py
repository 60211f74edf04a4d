"""A consumer with fetch sessions: it names what has changed, and is told what has (KIP-227).

    epoch 0: all partitions ─► session ─► epoch 1, 2, ...: what has moved ─► a wrong epoch: refused
                                             │ lost, or at random
                                             └─► a new session, now and then of hundreds

It follows one partition as other followers do, and is judged like them. Beside it stand partitions
that there are not: of these it hears with every answer.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from penstock.client.fetch import FetchedPartition
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.readers import Reader
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import find_leader, now_ns, open_link, pause
from simulator.run.topology import TOPIC

FETCH_VERSION = 10
"""The last by which nobody is sent to a slave."""
WAIT_MS = 200
IDLE_SECONDS = (0.02, 0.1)
STRANGERS = range(1_000, 1_003)
MANY_STRANGERS = range(1_000, 1_600)
"""With so many the request is a long one, and its answer is made in turns."""
MANY_SHARE, END_SHARE, WRONG_SHARE = 0.15, 0.1, 0.05
NO_SESSION = 0
_LOST = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@dataclass(slots=True, kw_only=True)
class SessionReader(Reader):
    """See the module."""

    partition: int
    session_id: int = NO_SESSION
    epoch: int = 0
    _said: int = -1
    """The offset that the broker knows of."""

    async def run(self) -> None:
        """Read until the run is over."""
        while not self.world.is_over:
            try:
                leader = await find_leader(self.world, self.random, self.partition)
                link = await open_link(self.world, leader)
                try:
                    self._begin_anew()
                    self.forget_lost()
                    await self._read_from(link)
                finally:
                    link.close()
            except LinkFailed:
                await pause(self.random)

    def _begin_anew(self) -> None:
        self.session_id, self.epoch, self._said = NO_SESSION, 0, -1

    async def _read_from(self, link: BrokerLink) -> None:
        while not self.world.is_over:
            if self._place(self.partition).is_lost:
                await self.list_starts(link, [self.partition])
            if self.session_id != NO_SESSION and self.random.random() < WRONG_SHARE:
                await self._ask_out_of_turn(link)
            await self._fetch_once(link)
            if self.random.random() < END_SHARE:
                self._begin_anew()
            await asyncio.sleep(self.random.uniform(*IDLE_SECONDS))

    async def _ask_out_of_turn(self, link: BrokerLink) -> None:
        """A request that is not the next one of its session is refused."""
        answer = await link.call(ApiKey.FETCH, FETCH_VERSION, self._fields(self.epoch + 2, [], 0))
        if answer.error_code not in _LOST:
            self.world.refuse(f"{self.name}: an epoch that is not the next is taken", link.host)

    async def _fetch_once(self, link: BrokerLink) -> None:
        offset = self._place(self.partition).offset
        wanted = [self.partition] if offset != self._said else []
        if self.epoch == 0:
            is_long = self.random.random() < MANY_SHARE
            wanted += MANY_STRANGERS if is_long else STRANGERS
        begun_ns = now_ns()
        fields = self._fields(self.epoch, wanted, offset)
        answer = await link.call(ApiKey.FETCH, FETCH_VERSION, fields)
        if answer.error_code in _LOST:
            self._begin_anew()
            return
        if answer.error_code != ErrorCode.NONE:
            raise link.broken(ErrorCode(answer.error_code).name)
        self.session_id, self._said = answer.session_id, offset
        self.epoch = self.epoch + 1 if self.session_id != NO_SESSION else 0
        self._take(answer, begun_ns, link)

    def _take(self, answer: Any, begun_ns: int, link: BrokerLink) -> None:
        for told in (one for topic in answer.responses for one in topic.partitions):
            error = ErrorCode(told.error_code)
            if told.partition_index != self.partition:
                if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    said = f"{self.name}: partition {told.partition_index} is told as {error.name}"
                    self.world.refuse(said, link.host)
                continue
            data = memoryview(told.records or b"")
            start, end = told.log_start_offset, told.high_watermark
            self._note(FetchedPartition(TOPIC, self.partition, error, end, start, data), begun_ns)
            if error not in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
                raise link.broken(error.name)

    def _fields(self, epoch: int, partitions: list[int], offset: int) -> dict[str, Any]:
        wanted = [
            {
                "partition": one,
                "current_leader_epoch": -1,
                "fetch_offset": offset if one == self.partition else 0,
                "log_start_offset": -1,
                "partition_max_bytes": 64 << 10,
            }
            for one in partitions
        ]
        return {
            "replica_id": -1,
            "max_wait": WAIT_MS,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": self.session_id if epoch else NO_SESSION,
            "session_epoch": epoch,
            "topics": [{"topic": TOPIC, "partitions": wanted}] if wanted else [],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
