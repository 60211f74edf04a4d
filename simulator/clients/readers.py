"""Consumers that record all answers.

    follower   looks up the leader, long-polls there, continues at the same offset after any error
    direct     always reads from the same broker, and records the log ends that it answers
    final      reads every partition from beginning to end, when the cluster is idle

Log ends are requested with ListOffsets: there a new master answers that it does not know the end
yet, while its fetches only return less (KIP-207). A follower detects wrong order, gaps and
duplicates; a direct reader detects a master that was replaced and does not know it.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from penstock.client.errors import ClientError
from penstock.client.fetch import (
    FetchedPartition,
    FetchOptions,
    FetchWant,
    encode_fetch,
    parse_fetch,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.read import iter_batches, iter_records
from simulator.clients.wire import BrokerLink, LinkFailed
from simulator.clients.world import ClientWorld, find_leader, now_ns, open_link, pause
from simulator.history import Content, Poll
from simulator.run.topology import KAFKA_PORT, TOPIC

FETCH_VERSION = 4
"""No slave answers it."""
LIST_OFFSETS_VERSION = 4
LATEST, EARLIEST = -1, -2
FINAL_READER = "final"

_LONG_POLL = FetchOptions(partition_bytes_max=64 << 10, bytes_min=1, wait_ms=300)
_AT_ONCE = FetchOptions(partition_bytes_max=64 << 10, bytes_min=0, wait_ms=0)
ASK_SECONDS = (0.05, 0.12)


@dataclass(slots=True)
class Place:
    """The position of a reader in one partition."""

    offset: int = 0
    is_fresh: bool = True
    is_lost: bool = False
    """The log has no such offset (any more): it begins later, or somebody is wrong."""


@dataclass(slots=True, kw_only=True)
class Reader:
    """What all readers do with an answer."""

    world: ClientWorld
    name: str
    random: Random
    places: dict[int, Place] = field(default_factory=dict)
    stays: bool = False
    """With its broker, when another one leads."""

    async def fetch(
        self, link: BrokerLink, partitions: list[int], options: FetchOptions
    ) -> list[FetchedPartition]:
        """Ask for what follows in these partitions and note it. Raises LinkFailed."""
        wants = [
            FetchWant(TOPIC, partition, self._place(partition).offset) for partition in partitions
        ]
        begun_ns = now_ns()
        link.send(ApiKey.FETCH, FETCH_VERSION, encode_fetch(FETCH_VERSION, wants, options))
        frame, at = await link.receive()
        try:
            answers = parse_fetch(FETCH_VERSION, frame, at)
        except ClientError as error:
            raise link.broken(str(error)) from error
        for answer in answers:
            self._note(answer, begun_ns)
        return answers

    async def list_ends(self, link: BrokerLink, partitions: list[int]) -> dict[int, int]:
        """Ask where these partitions end, and note it; those without an answer are left out."""
        begun_ns = now_ns()
        ends = await list_offsets(link, partitions, LATEST)
        ended_ns = now_ns()
        self.world.polls += [
            Poll(self.name, partition, (), begun_ns, ended_ns, end_offset=end, told_by=link.host)
            for partition, end in ends.items()
        ]
        return ends

    async def list_starts(self, link: BrokerLink, partitions: list[int]) -> dict[int, int]:
        """Ask where these partitions begin, and note it. Who has lost its place begins there."""
        begun_ns = now_ns()
        starts = await list_offsets(link, partitions, EARLIEST)
        ended_ns = now_ns()
        for partition, start in starts.items():
            told = Poll(
                self.name, partition, (), begun_ns, ended_ns, start_offset=start, told_by=link.host
            )
            self.world.polls.append(told)
            self._find_again(partition, start, link.host)
        return starts

    def forget_lost(self) -> None:
        """Before another broker is asked: what one said of a log's beginning binds no other."""
        for place in self.places.values():
            place.is_lost = False

    def _find_again(self, partition: int, start: int, host: str) -> None:
        place = self._place(partition)
        if not place.is_lost:
            return
        if start <= place.offset:
            self.world.refuse(
                f"{self.name}: offset {place.offset} of {partition} is not there,"
                f" though the log begins at {start}",
                host,
            )
        place.offset, place.is_fresh, place.is_lost = start, True, False

    def _place(self, partition: int) -> Place:
        return self.places.setdefault(partition, Place())

    def _note(self, found: FetchedPartition, begun_ns: int) -> None:
        place = self._place(found.partition)
        if found.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            place.is_lost = True
        if found.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and self.stays:
            told = Poll(self.name, found.partition, (), begun_ns, now_ns(), is_elsewhere=True)
            self.world.polls.append(told)
        if found.error is not ErrorCode.NONE:
            return
        there = [
            record
            for _, batch in iter_batches(found.data)
            for record in iter_records(batch)
            if record.offset >= place.offset
        ]
        records = [(record.offset, _value_name(record.value)) for record in there]
        contents = [content_of(record.timestamp_ms, record.value) for record in there]
        self.world.polls.append(
            Poll(
                self.name,
                found.partition,
                records,
                begun_ns,
                now_ns(),
                place.is_fresh,
                contents=contents,
            )
        )
        if records:
            place.offset, place.is_fresh = records[-1][0] + 1, False


@dataclass(slots=True, kw_only=True)
class Follower(Reader):
    """Reads one partition from its leader."""

    partition: int

    async def run(self) -> None:
        """Read until the run is over."""
        while not self.world.is_over:
            try:
                leader = await find_leader(self.world, self.random, self.partition)
                link = await open_link(self.world, leader)
                try:
                    await self._read_from(link)
                finally:
                    link.close()
            except LinkFailed:
                await pause(self.random)

    async def _read_from(self, link: BrokerLink) -> None:
        self.forget_lost()
        while not self.world.is_over:
            if self._place(self.partition).is_lost:
                await self.list_starts(link, [self.partition])
            (answer,) = await self.fetch(link, [self.partition], _LONG_POLL)
            if answer.error not in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
                raise link.broken(answer.error.name)


@dataclass(slots=True, kw_only=True)
class DirectReader(Reader):
    """Reads all partitions of one broker."""

    host: str
    stays: bool = True

    async def run(self) -> None:
        """Read until the run is over."""
        partitions = list(range(self.world.partitions))
        while not self.world.is_over:
            try:
                link = await BrokerLink.open(self.host, KAFKA_PORT)
                self.forget_lost()
                try:
                    while not self.world.is_over:
                        await asyncio.sleep(self.random.uniform(*ASK_SECONDS))
                        await self.list_ends(link, partitions)
                        if any(place.is_lost for place in self.places.values()):
                            await self.list_starts(link, partitions)
                        await self._read_up(link, partitions)
                finally:
                    link.close()
            except LinkFailed:
                await pause(self.random)

    async def _read_up(self, link: BrokerLink, partitions: list[int]) -> None:
        """Read what there is: a broker that leads for the first time has all of it to show."""
        has_more = True
        while has_more and not self.world.is_over:
            before = [self._place(partition).offset for partition in partitions]
            await self.fetch(link, partitions, _AT_ONCE)
            has_more = before != [self._place(partition).offset for partition in partitions]


@dataclass(slots=True, kw_only=True)
class FinalReader(Reader):
    """Reads everything once; writers must have come to rest."""

    async def run(self) -> None:
        """Return when every partition was read to its end from its leader."""
        for partition in range(self.world.partitions):
            while not await self._read(partition):
                await pause(self.random)

    async def _read(self, partition: int) -> bool:
        """Go on reading a partition; returns whether its end was reached."""
        try:
            leader = await find_leader(self.world, self.random, partition)
            link = await open_link(self.world, leader)
            try:
                start = (await self.list_starts(link, [partition])).get(partition)
                end = (await self.list_ends(link, [partition])).get(partition)
                if start is not None and start > self._place(partition).offset:
                    self.places[partition] = Place(start)
                while end is not None and self._place(partition).offset < end:
                    (answer,) = await self.fetch(link, [partition], _AT_ONCE)
                    if answer.error is not ErrorCode.NONE:
                        return False
                return start is not None and end is not None
            finally:
                link.close()
        except LinkFailed:
            return False


async def list_offsets(
    link: BrokerLink, partitions: list[int], timestamp: int, *, topic: str = TOPIC
) -> dict[int, int]:
    """Ask ListOffsets; partitions with an error are left out. Raises LinkFailed."""
    asked = [
        {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        for partition in partitions
    ]
    fields = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": asked}],
    }
    answer = await link.call(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, fields)
    return {
        partition.partition_index: partition.offset
        for found in answer.topics
        for partition in found.partitions
        if partition.error_code == ErrorCode.NONE
    }


def content_of(timestamp_ms: int, value: bytes | None) -> Content:
    """Return what sender and reader must agree on."""
    return timestamp_ms, crc32(value or b"")


def _value_name(value: bytes | None) -> str:
    """Return the unique part of a record's value."""
    return (value or b"").partition(b".")[0].decode(errors="replace")
