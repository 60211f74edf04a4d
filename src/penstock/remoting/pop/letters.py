"""Messages that were popped too often become dead letters: the DeadLetters port of the shares.

    given up, confirmed ─► read ─► appended to %DLQ%group, in the set of the data ─► over
                 ▲                                      └─ can not be, now ─┘ after a second, again

The copy is in the set of its message, so that what masters one masters the other. It tells where
the message came from, as those do that are sent back (later/retries.py). A failover between the
copy and what is told of it copies once more.

Memory: the offsets that are given up, a read of a quarter MiB for each of AT_ONCE queues.

Source: RocketMQ 5.3.3, proxy `ForwardMessageToDeadLetterQueue`; ours does it at the broker, for
clients of every protocol.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.coordinators.share_policies import popping_group
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.broker.tier.reach import known_first_offset
from penstock.controller.commands.topic_names import check_topic_name
from penstock.record.build import Record
from penstock.record.excerpt import Part
from penstock.record.read import iter_batches, iter_records, run_end
from penstock.remoting.errors import PopUnavailable
from penstock.remoting.ids import derived_id
from penstock.remoting.later.delayed import stamped
from penstock.remoting.later.group_topics import DEAD_LETTERS, stored_name
from penstock.remoting.later.retries import Failed, dead_letter
from penstock.remoting.mapping import to_message
from penstock.remoting.sending import Sent
from penstock.remoting.system_names import UNIQ_KEY
from penstock.shares.messages import Unavailable
from penstock.shares.runs import Run, Runs, clipped, joined
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.excerpts import Excerpts
    from penstock.remoting.later.places import Places
    from penstock.remoting.pop.pops import Pops
    from penstock.remoting.sending import Sending
    from penstock.shares.state import ShareKey

log = logging.getLogger(__name__)

BYTES_MAX: Final = 256 << 10
RECORDS_MAX: Final = 200
"""Copied at once."""
AT_ONCE: Final = 8
PAUSE_S: Final = 1.0

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class PopLetters:
    """See the module; one for each front."""

    def __init__(
        self,
        broker: Broker,
        spawn: Spawn,
        places: Places,
        sending: Sending,
        *,
        pops: Pops,
        excerpts: Excerpts,
    ) -> None:
        self._broker = broker
        self._spawn = spawn
        self._places = places
        self._sending = sending
        self._pops = pops
        self._excerpts = excerpts
        self._due: dict[ShareKey, list[Run]] = {}
        """What is to be copied, of shares that have a task."""
        self._of: dict[int, dict[ShareKey, None]] = {}
        """By partition of the shares' topic."""
        self._places_free = asyncio.Semaphore(AT_ONCE)

    def send(self, partition: int, key: ShareKey, runs: Runs) -> None:
        """As in DeadLetters."""
        due = self._due.get(key)
        if due is not None:
            self._due[key] = joined([*due, *runs])
            return
        self._due[key] = joined(runs)
        self._of.setdefault(partition, {})[key] = None
        self._spawn("dead letters", self._run(partition, key))

    def cancel(self, partition: int) -> None:
        """As in DeadLetters."""
        for key in self._of.get(partition, ()):
            self._due[key] = []

    async def _run(self, partition: int, key: ShareKey) -> None:
        """Copy what is due of a share, until nothing is."""
        try:
            while due := self._due[key]:
                async with self._places_free:
                    done = await self._copied(key, due[0])
                if not done and self._is_gone(key):
                    return
                if not done:
                    await asyncio.sleep(PAUSE_S)
                    continue
                left = [*clipped(self._due[key], 0, done[0]), *_behind(self._due[key], done[1])]
                self._due[key] = left
                self._broker.shares.dead_lettered(key, [done])
        finally:
            del self._due[key]
            keys = self._of[partition]
            del keys[key]
            if not keys:
                del self._of[partition]

    def _is_gone(self, key: ShareKey) -> bool:
        """Whether nobody wants copies any more: the topic, or the share, is gone."""
        described = self._broker.shares.describe(key)
        return self._broker.share_places.is_gone(key) or described is Unavailable.NOT_STARTED

    async def _copied(self, key: ShareKey, run: Run) -> Run | None:
        """Copy the beginning of a run; return what is copied, None if nothing can be now."""
        try:
            return await self._copy(key, run)
        except PlatformError as error:
            log.info("group=%s partition=%d: %s", key.group, key.partition, error)
            return None

    async def _copy(self, key: ShareKey, run: Run) -> Run | None:
        topic = self._broker.partitions.by_id.get(TopicId(key.topic_id))
        hosted = None if topic is None else topic.find(key.partition)
        group = popping_group(key.group)
        if hosted is None or group is None:
            return None
        hosted.check_still_led()
        first, end = run
        start = known_first_offset(hosted, self._broker.tier)
        if end <= start:
            return run  # retention was faster
        first = max(first, start)
        read = await self._read(hosted, first)
        if isinstance(read.error, OffsetOutOfRange):
            return None
        if read.error is not None:
            raise read.error
        await self._excerpt(read, first)
        letters, end = _letters(hosted, read, (first, end))
        if letters:
            await self._append(hosted, group, letters)
            self._pops.note(group, "dead_letter", len(letters))
        return run[0], end

    async def _read(self, hosted: HostedPartition, offset: int) -> PartitionRead:
        key = (hosted.topic.name_bytes, hosted.partition)
        read = PartitionRead(WantedPartition(key, offset, BYTES_MAX), hosted)
        read.clear()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        FetchOperation(
            self._broker,
            [read],
            min_bytes=0,
            max_bytes=BYTES_MAX,
            on_done=lambda _: done.set_result(None),
            consumer=Consumer(),
        ).start(0)
        await done
        return read

    async def _excerpt(self, read: PartitionRead, first: int) -> None:
        """Put what is copied in the place of what was read. Raises RecordError kinds."""
        done: asyncio.Future[PlatformError | None] = asyncio.get_running_loop().create_future()
        part = Part(first, BYTES_MAX, RECORDS_MAX)
        self._excerpts.make(read, part, None, done.set_result, _nothing)
        error = await done
        if error is not None:
            raise error

    async def _append(self, hosted: HostedPartition, group: str, letters: list[Record]) -> None:
        """Append dead letters; returns once they are confirmed. Raises PlatformError."""
        name = stored_name(DEAD_LETTERS + group)
        check_topic_name(name)
        told: asyncio.Future[int | PlatformError] = asyncio.get_running_loop().create_future()
        now_ms = self._broker.clock.wall_ms()
        sent = Sent([stamped(one, now_ms) for one in letters], told.set_result)

        def use(place: HostedPartition | PlatformError) -> None:
            if isinstance(place, PlatformError):
                told.set_result(place)
            else:
                self._sending.add(place, sent)

        self._places.use(name, hosted.member.replica_set_id, use)
        outcome = await told
        if isinstance(outcome, PlatformError):
            raise outcome


def _nothing() -> None:
    """Nobody has asked, so nobody goes."""


def _behind(runs: Runs, end: int) -> list[Run]:
    return [(max(a, end), b) for a, b in runs if b > end]


def _letters(hosted: HostedPartition, read: PartitionRead, run: Run) -> tuple[list[Record], int]:
    """Return the records of a run that were read, as dead letters, and where they end.

    Raises RecordError kinds, and PopUnavailable where nothing of the run was read.
    """
    first, end = run
    data = memoryview(b"".join(read.buffers))
    letters: list[Record] = []
    size = 0
    for offset, record in _records(data, first, end):
        if letters and (len(letters) == RECORDS_MAX or size >= BYTES_MAX):
            return letters, offset
        letters.append(_letter(hosted, offset, record))
        size += len(record.value or b"")
    reached = min(run_end(data, first), end)
    if reached <= first:
        raise PopUnavailable("the message can not be read now")
    return letters, reached


def _records(data: memoryview, first: int, end: int) -> Iterator[tuple[int, Record]]:
    for header, batch in iter_batches(data):
        if header.is_control or header.last_offset < first or header.base_offset >= end:
            continue
        for one in iter_records(batch):
            if first <= one.offset < end:
                yield one.offset, Record(one.key, one.value, one.headers, one.timestamp_ms)


def _letter(hosted: HostedPartition, offset: int, record: Record) -> Record:
    topic_id = bytes(hosted.topic.topic_id)
    message = to_message(record, derived_id(topic_id, hosted.partition, offset))
    failed = Failed(
        topic=hosted.topic.name,
        message_id=message.properties.get(UNIQ_KEY, ""),
        times=message.reconsume_times,
        times_max=0,
        level=-1,
    )
    return dead_letter(record, failed)
