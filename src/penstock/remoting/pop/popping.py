"""One pop: reads what may be handed out of some queues, hands it out, or waits for some.

    each queue, another one first each time
      what may be handed out next? ─► read it ─► hand out ─► answer with the messages of this queue
        ▲        └─ the share has not begun ─► begin it
        └── more messages, something came back, loaded ◄─── nothing in any queue: wait

The state is the share engine's, as that of Kafka's share groups is; nothing is handed out that was
not read. In a share that keeps the order of message groups, one message of each is handed out at a
time, and the next one once that is over. An answer has the messages of one queue: clients make
receipts of one number for all of it. Records that are not wanted are handed out with the others,
and accepted at once. Who asked makes messages of the records, in the words of its protocol.

Source: RocketMQ 5.3.3 `PopMessageProcessor`; ours, docs/adr/0134, 0144.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.broker.shares.moving import moved
from penstock.broker.shares.waiting import ShareWait, ready
from penstock.broker.tier.reach import first_offset
from penstock.broker.tier.view import TierClient
from penstock.broker.turns import Pace
from penstock.record.excerpt import Part as RunPart
from penstock.remoting.errors import PopUnavailable
from penstock.remoting.pop.beginning import begin
from penstock.remoting.pop.records import (
    BYTES_MAX,
    LOOKED_MAX,
    Seen,
    Source,
    Wanted,
    divided,
    hashes_of,
    look,
)
from penstock.shares.coordinator import Move
from penstock.shares.messages import Answer, Outlook, Unavailable, WhyNot
from penstock.shares.updates.handed import Wanted as WantedRecords
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.filters.verdicts import MessageFilter
    from penstock.remoting.pop.beginning import Begins
    from penstock.remoting.pop.desk import PopDesk, Popper
    from penstock.shares.state import ShareKey

GONE_CHECK_S: Final = 1.0
RETRY_S: Final = 0.1
"""Pause where a share can not be used now, and nothing tells when it can."""
REFUSED_S: Final = 1.0
"""Pause where a share may not be used, as long as its group says so."""
LOOKS_MAX: Final = 100
"""Reads of one queue without a message that is wanted, before others have their turn."""
EXCERPT_BYTES: Final = 512 << 10
"""Of records, unpacked, that are looked at for one answer; a single one may be larger."""
FEW: Final = 20
"""With more pops that wait, those that are woken look one in a turn."""


class Asked(NamedTuple):
    """What a client asks for."""

    group: str
    member: str
    topic: str
    topic_id: bytes
    messages_max: int
    invisible_ms: int
    wait_ms: int
    begins: Begins
    filter: MessageFilter


class Part(NamedTuple):
    """A queue, and its share."""

    hosted: HostedPartition
    key: ShareKey
    queue_id: int
    """By which clients know it."""


class Popped(NamedTuple):
    """Messages of one queue, which is `part`."""

    part: Part
    nonce: int
    messages: list[tuple[Seen, int]]
    """In order, each with how often it was handed out so far."""
    left: int
    """Messages of the queue that were never handed out, about."""

    @property
    def offsets(self) -> list[int]:
        """Of its messages, ascending."""
        return [one.record.offset for one, _ in self.messages]

    def note(self, desk: PopDesk, group: str) -> None:
        """Count its messages."""
        desk.pops.note(group, "popped", len(self.messages))
        desk.pops.note(group, "again", sum(count > 1 for _, count in self.messages))


class Popping:
    """See the module; one for each request."""

    __slots__ = ("_asked", "_desk", "_error", "_pace", "_parts", "_pause_s", "_popper", "_wait")

    def __init__(self, desk: PopDesk, popper: Popper, asked: Asked, parts: Sequence[Part]) -> None:
        """`parts` are the queues, in the order in which they are looked at."""
        self._desk = desk
        self._popper = popper
        self._asked = asked
        self._parts = parts
        self._pace = Pace(desk.broker.turns)
        self._wait = ShareWait()
        self._error: PlatformError | None = None
        """Why a queue could not be looked at."""
        self._pause_s: float | None = None
        """When to look again, also without news."""

    async def run(self) -> Popped | None:
        """Return messages, as soon as there are some; None if the time is over.

        Raises why no queue could be looked at, if so.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._asked.wait_ms / 1000
        pops = self._desk.pops
        pops.waiting += 1
        try:
            while True:
                await self._watch()
                is_last = loop.time() >= deadline
                popped = await self._look()
                if popped is not None or is_last or self._has_gone or self._is_over:
                    break
                await self._woken(deadline)
        finally:
            pops.waiting -= 1
            self._leave()
        if popped is None and self._error is not None:
            raise self._error
        return popped

    @property
    def _has_gone(self) -> bool:
        return self._popper.has_gone()

    @property
    def _is_over(self) -> bool:
        """Whether waiting helps nobody: another broker has a queue by now, or it is gone."""
        return self._error is not None and not isinstance(self._error, PopUnavailable)

    async def _watch(self) -> None:
        """Before anything is looked at, so that no change is missed."""
        self._wait.clear()
        for part in self._parts:
            await self._pace.step()
            self._desk.broker.shares.watchers.watch(part.key, self._wait)
            part.hosted.park(self._wait, -1)

    def _leave(self) -> None:
        for part in self._parts:
            self._desk.broker.shares.watchers.leave(part.key, self._wait)
            part.hosted.leave(self._wait)

    async def _woken(self, deadline: float) -> None:
        """Wait for news, for the end of the time, or for the client to go."""
        loop, broker = asyncio.get_running_loop(), self._desk.broker
        pause_s = self._pause_s
        until = deadline if pause_s is None else min(deadline, loop.time() + pause_s)
        while not self._has_gone and loop.time() < until:
            if await self._wait.until(min(GONE_CHECK_S, until - loop.time())):
                break
        if self._desk.pops.waiting > FEW:
            await broker.turns.next()

    async def _look(self) -> Popped | None:
        self._error = self._pause_s = None
        for part in self._parts:
            await self._pace.step()
            try:
                popped = await self._pop(part)
            except PlatformError as error:
                self._error = error
                self._look_again(REFUSED_S)
                continue
            if popped is not None:
                return popped
        return None

    def _look_again(self, pause_s: float) -> None:
        self._pause_s = pause_s if self._pause_s is None else min(pause_s, self._pause_s)

    # One queue

    async def _pop(self, part: Part) -> Popped | None:
        """Hand out of a queue; None if there is nothing. Raises PlatformError."""
        for _ in range(LOOKS_MAX):
            outlook = await self._outlook(part)
            if (
                self._has_gone
                or outlook is None
                or not outlook.room
                or not _has_more(part, outlook)
            ):
                return None
            read = await self._read(part, outlook.next_offset)
            if isinstance(read.error, OffsetOutOfRange):
                continue  # the log begins later by now
            if read.error is not None:
                raise read.error
            await self._pace.step(20)
            if self._has_gone:
                return None  # nobody would have what is handed out
            now = self._desk.broker.shares.outlook(part.key)
            if isinstance(now, Unavailable) or not read.size:
                return None
            if now.next_offset < outlook.next_offset:
                continue  # something that was not read came back
            # From here on nothing is waited for: it is this that is handed out.
            popped = self._timed_hand_out(part, read, now)
            if not isinstance(popped, bool):
                return popped
            if not popped:
                return None
        self._look_again(RETRY_S)
        return None

    async def _outlook(self, part: Part) -> Outlook | None:
        """Return what may be handed out, of a share that has begun and is not behind its log."""
        shares, hosted = self._desk.broker.shares, part.hosted
        hosted.check_still_led()
        hosted.member.check_readable()
        outlook = shares.outlook(part.key)
        if isinstance(outlook, Unavailable):
            await self._make_ready(part, outlook)
            outlook = shares.outlook(part.key)
        if isinstance(outlook, Unavailable):
            return None
        start = first_offset(hosted, self._desk.broker.tier)
        if start is not None and outlook.start_offset < start:
            await moved(self._desk.broker, part.key, start, Move.ADVANCE)
            outlook = shares.outlook(part.key)
        return None if isinstance(outlook, Unavailable) else outlook

    async def _make_ready(self, part: Part, why: Unavailable) -> None:
        """Have a share loaded, or begun. Raises PopUnavailable where that can not be helped."""
        broker = self._desk.broker
        has_place = broker.share_places.internal_partition_of(part.key) is not None
        why_not: WhyNot | None = Unavailable.NOT_STARTED
        if why is not Unavailable.NOT_STARTED and has_place:
            why_not = await ready(broker, part.key)
        if why_not is Unavailable.NOT_STARTED:
            asked = self._asked
            why_not = await begin(self._desk, asked.group, part.key, part.hosted, asked.begins)
        if why_not in {Unavailable.FULL, Unavailable.LOADING, Unavailable.NOT_HERE}:
            self._look_again(RETRY_S)
        elif why_not is not None:
            raise PopUnavailable(str(why_not.value))

    async def _read(self, part: Part, offset: int) -> PartitionRead:
        broker, popper = self._desk.broker, self._popper
        key = (self._asked.topic.encode(), part.hosted.partition)
        read = PartitionRead(WantedPartition(key, offset, BYTES_MAX), part.hosted)
        read.clear()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: object = None) -> None:
            if not done.done():
                done.set_result(None)

        operation = FetchOperation(
            broker,
            [read],
            min_bytes=0,
            max_bytes=BYTES_MAX,
            on_done=end,
            consumer=Consumer(
                room=popper,
                turn=partial(broker.look_ups.ask, popper),
                tier=TierClient(popper, self._wait.on_share),
                is_committed=True,
            ),
        )
        # Where the client has gone there is no answer: only its end is told.
        operation.on_end = partial(_soon, broker, end)
        operation.start(0)
        await done
        if read.error is None and read.size:
            await self._excerpt(read, offset)
        return read

    async def _excerpt(self, read: PartitionRead, offset: int) -> None:
        """Put what is looked at in the place of what was read: nothing if the client has gone."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(error: PlatformError | None) -> None:
            read.error = error
            if not done.done():
                done.set_result(None)

        def drop() -> None:
            read.clear()
            told(None)

        # Where each record is wanted, those behind are not looked at.
        asked = self._asked
        is_each_wanted = asked.filter.wants_all and not read.aborted
        most = min(asked.messages_max, LOOKED_MAX) if is_each_wanted else LOOKED_MAX
        wanted = RunPart(offset, EXCERPT_BYTES, most)
        self._desk.excerpts.make(read, wanted, self._popper, told, drop)
        await done

    def _timed_hand_out(self, part: Part, read: PartitionRead, outlook: Outlook) -> Popped | bool:
        broker = self._desk.broker
        begun_us = broker.clock.monotonic_us()
        try:
            return self._hand_out(part, read, outlook)
        finally:
            self._desk.turns.note(broker.clock.monotonic_us() - begun_us)

    def _hand_out(self, part: Part, read: PartitionRead, outlook: Outlook) -> Popped | bool:
        """Hand out of what was read, in one turn; else return whether there may be more behind."""
        asked = self._asked
        source = Source(asked.topic_id, part.hosted.partition)
        is_ordered = outlook.is_ordered
        looked = look(read, Wanted(asked.messages_max, asked.filter, is_ordered), source)
        wanted = WantedRecords(
            asked.member,
            len(looked.records),
            looked.end,
            asked.invisible_ms,
            looked.absent,
            hashes=hashes_of(looked, outlook.end_offset) if is_ordered else None,
        )
        given = self._desk.broker.shares.acquire(part.key, wanted)
        if isinstance(given, Unavailable):
            raise PopUnavailable(given.value)
        if not given.runs:
            return bool(looked.absent) or wanted.hashes is not None
        kept, unwanted = divided(looked, given.runs, given.counts)
        if unwanted:
            self._accept(part, [(offset, given.nonce) for offset in unwanted], looked.end)
        if not kept:
            return True
        left = max(int(read.high_watermark) - looked.end, 0)
        return Popped(part, given.nonce, kept, left)

    def _accept(self, part: Part, receipts: Sequence[tuple[int, int]], end: int) -> None:
        """Settle what is not wanted; where that is lost, it is looked at again."""
        self._desk.broker.shares.accept(part.key, receipts, end, _ignore, is_unwanted=True)


def _has_more(part: Part, outlook: Outlook) -> bool:
    """Whether something may be there to be handed out."""
    end = part.hosted.member.high_watermark(part.hosted.log)
    return end is None or outlook.next_offset < end


def _soon(broker: Broker, run: Callable[[], None]) -> None:
    broker.scheduler.call_soon(run)


def _ignore(answer: Answer) -> None:
    """Nobody waits for it."""


class Peeking(Popping):
    """Waits until something could be popped, and takes nothing."""

    __slots__ = ()

    async def _pop(self, part: Part) -> Popped | None:
        outlook = await self._outlook(part)
        if outlook is None or not outlook.room or not _has_more(part, outlook):
            return None
        return Popped(part, 0, [], 0)
