"""A client that looks records up by their time, in logs that lie in files of several levels.

    at T          the first record that is not older, with its time
    at T, later   never before what a T that was not later was answered with, of the records that
                  were there then, where nothing is cleaned: a member that has deleted or cleaned
                  less may lead next
    newest time   never falls, where no record is deleted

Retention raises each member's log start by itself, so that the log start of the next master may be
lower. What was there when an answer was made is known by the log start that its broker told next.

Source: KIP-734 (the largest timestamp); the rest is ListOffsets since KIP-79.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.keyed import TOPIC as KEYED_TOPIC
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, now_ns, open_link, pause
from simulator.run.topology import SESSION_TIMEOUT_MS, TOPIC, WALL_START_MS

LIST_OFFSETS_VERSION = 7
EARLIEST, NEWEST = -2, -3
SEEK_SECONDS = (0.2, 0.6)
ANSWERS_KEPT = 20


class Found(NamedTuple):
    """An answer: what was asked for, and the record's place and time; -1: there is none."""

    asked: int
    offset: int
    timestamp_ms: int
    told_ns: int
    log_start_offset: int = 0
    """Records from here on were there when it was told (inclusive)."""


@dataclass(slots=True, kw_only=True)
class Seeker:
    """See the module."""

    world: ClientWorld
    random: Random
    is_cut: bool
    """Whether records of the history are deleted."""
    found: dict[tuple[str, int], list[Found]] = field(default_factory=dict)
    """The last answers for each partition."""

    async def run(self) -> None:
        """Go on until the run is over."""
        while not self.world.is_over:
            await asyncio.sleep(self.random.uniform(*SEEK_SECONDS))
            topic, partition = TOPIC, self.random.randrange(self.world.partitions)
            if self.random.random() < 0.3:
                topic, partition = KEYED_TOPIC, 0
            try:
                leader = await find_leader(self.world, self.random, partition, topic=topic)
                link = await open_link(self.world, leader)
            except LinkFailed:
                await pause(self.random)
                continue
            try:
                await self._seek(link, topic, partition)
            except LinkFailed:
                await pause(self.random)
            finally:
                link.close()

    async def _seek(self, link: BrokerLink, topic: str, partition: int) -> None:
        passed_ms = now_ns() // 1_000_000
        times = sorted(WALL_START_MS + self.random.randint(0, passed_ms) for _ in range(2))
        for asked in (*times, NEWEST):
            begun_ns = now_ns()
            found = await self._ask(link, topic, partition, asked)
            if found is None:
                return
            known = self.found.setdefault((topic, partition), [])
            if why := self._wrong(topic, known, found, begun_ns):
                text = f"{topic}-{partition} at {link.host}: {why}"
                self.world.refuse(text, told_by=link.host)
            if self.is_cut:
                start = await self._ask(link, topic, partition, EARLIEST)
                if start is None:
                    return
                found = found._replace(log_start_offset=start.offset)
            known.append(found)
            del known[:-ANSWERS_KEPT]

    async def _ask(self, link: BrokerLink, topic: str, partition: int, asked: int) -> Found | None:
        """Return the answer; None if the broker can not say. Raises LinkFailed."""
        one = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": asked}
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [one]}],
        }
        answer = await link.call(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, fields)
        (told,) = answer.topics[0].partitions
        if told.error_code != ErrorCode.NONE:
            return None
        return Found(asked, told.offset, told.timestamp, now_ns())

    def _wrong(self, topic: str, known: list[Found], found: Found, begun_ns: int) -> str:
        """Say what is wrong with an answer, or nothing."""
        if found.asked == NEWEST:
            if self.is_cut or topic != TOPIC:
                return ""
            before = [
                one.timestamp_ms
                for one in known
                if one.told_ns < begun_ns - SESSION_TIMEOUT_MS * 1_000_000
            ]
            is_older = found.timestamp_ms < max(before, default=-1)
            return f"newest time {found.timestamp_ms} after {max(before)}" if is_older else ""
        if found.offset < 0:
            return ""
        if found.timestamp_ms < found.asked:
            return f"asked for {found.asked}, and {found.timestamp_ms} is told"
        for one in known if topic == TOPIC else ():
            was_there = one.log_start_offset <= found.offset < one.offset
            if NEWEST != one.asked <= found.asked and was_there:
                return f"{found} after {one}"
        return ""
