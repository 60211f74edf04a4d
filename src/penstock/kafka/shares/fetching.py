"""One share fetch: reads what may be handed out, hands it out, or waits for some.

    what may be handed out next? ─► read it ─► enough, or no waiting left ─► hand out ─► answer
               ▲      └─ the share has not begun: may it? ─► begin it
               └── more records, something came back, moved ◄───┴─ nothing: wait

Records are read before they are handed out, since bytes are what the answer is limited by; nothing
is handed out that was not read. Between both other members may take them, or older ones may come
back: then it is read again.

Source: Kafka `DelayedShareFetch`, `SharePartition.acquire`, KIP-932, KIP-1206 (strict counts).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.broker.partitions import HostedPartition
from penstock.broker.shares.moving import moved
from penstock.broker.shares.waiting import READY_S, ShareWait, ready
from penstock.broker.tier.reach import first_offset
from penstock.broker.tier.view import TierClient
from penstock.broker.turns import Pace
from penstock.kafka.error_map import error_code_of
from penstock.kafka.request import Request
from penstock.kafka.shares.admissions import REFUSED_MS
from penstock.kafka.shares.batches import Acquired, Found, bytes_of, cost_of, look, ranges_of
from penstock.kafka.shares.codes import code_of
from penstock.kafka.shares.group_keys import ShareGroupKeys
from penstock.kafka.shares.sessions import ShareSession, TopicIdPartition
from penstock.kafka.shares.starting import start
from penstock.protocol.error_codes import ErrorCode
from penstock.shares.coordinator import Move
from penstock.shares.messages import Outlook, Unavailable, WhyNot
from penstock.shares.state import ShareKey
from penstock.shares.updates.handed import Wanted
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.kafka.front import KafkaFront

READ_MAX = 100
"""Partitions that are read for one answer; those behind them come first in the next one."""
BYTES_MAX = 2 << 20
"""Bytes of one answer, unless its first batch is larger: they are copied in one turn, 1 ms."""
RECORDS_MAX = 2_000
"""Records of one answer, but for the rest of a batch: each may be a range of its own, 5 us."""
WAIT_S_MAX = 30.0
GONE_CHECK_S = 1.0
FEW = 20
"""With more fetches that wait, those that are woken look one in a turn."""
ASKED_S = 1.0
"""How long a fetch waits beyond its time to hear whether a share may begin (admissions.py)."""
RETRY_S = 0.05
"""Pause of a look where shares can not be used now, and nothing tells when they can."""
REFUSED_S, REFUSED_S_MAX = REFUSED_MS / 1_000, 8.0
"""Where shares may not begin their group is asked again after so long, twice as long each time:
nobody tells when it knows of them."""
TOGETHER = 20
"""Partitions that are looked through in a step, without asking for anything."""


class Limits(NamedTuple):
    """What the member asks for."""

    wait_s: float
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_strict: bool
    """Whether `max_records` cuts batches (KIP-1206)."""


class SharePart:
    """One partition of a fetch, and what it gets."""

    __slots__ = ("acquired", "buffers", "error", "hosted", "key", "place")

    def __init__(self, key: ShareKey, hosted: HostedPartition | None, error: ErrorCode) -> None:
        self.key = key
        self.place: TopicIdPartition = (key.topic_id, key.partition)
        self.hosted = hosted
        self.error = error
        self.buffers: list[memoryview] = []
        self.acquired: list[Acquired] = []


class ShareFetching:
    """One fetch; its parts have the result after `run`."""

    __slots__ = (
        "_admissions",
        "_broker",
        "_is_asking",
        "_is_early",
        "_is_refused",
        "_keys",
        "_left",
        "_limits",
        "_pace",
        "_parts",
        "_ready_until",
        "_refused_s",
        "_request",
        "_session",
        "_sessions",
        "_wait",
    )

    def __init__(  # noqa: PLR0913  whose it is, what is wanted, and how
        self,
        front: KafkaFront,
        session: ShareSession,
        parts: list[SharePart],
        *,
        keys: ShareGroupKeys,
        limits: Limits,
        request: Request,
        wait: ShareWait,
    ) -> None:
        """`wait` is that of the session's newest fetch until another one comes."""
        self._broker = front.broker
        self._sessions = front.share_sessions
        self._admissions = front.share_admissions
        self._is_asking = False
        """Whether it was not known at the last look if some share may begin."""
        self._is_refused = False
        """Whether some share might not begin at the last look."""
        self._is_early = False
        """Whether some share could not be used yet at the last look, which is no error."""
        self._ready_until = 0.0
        """How long a look waits for shares, all of them together: there may be thousands."""
        self._refused_s = REFUSED_S
        self._session = session
        self._parts = [part for part in parts if part.hosted is not None]
        self._keys = keys
        self._limits = limits
        self._left = limits.max_records
        self._request = request
        self._pace = Pace(front.broker.turns)
        self._wait = wait

    async def run(self, *, may_wait: bool) -> None:
        """Hand records out, as soon as there are enough of them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._limits.wait_s if may_wait else 0)
        asked_until = loop.time() + ASKED_S
        self._sessions.parked += len(self._parts)
        try:
            while self._left > 0 and not self._is_gone:
                self._wait.clear()
                await self._watch()
                is_last = loop.time() >= deadline
                again = await self._look(is_last=is_last)
                until = max(deadline, asked_until) if self._is_asking else deadline
                is_over = is_last and not again and loop.time() >= until
                if is_over or await self._has_result():
                    return
                if not again and not await self._is_woken(self._next_look(until)):
                    continue  # the time is over: look once more, however little there is
        finally:
            self._sessions.parked -= len(self._parts)
            await self._leave()

    @property
    def _is_gone(self) -> bool:
        session = self._session
        is_last = session.newest is self._wait
        return session.is_over or not is_last or self._request.connection.has_gone()

    async def _has_result(self) -> bool:
        told = self._session.partitions
        for begin in range(0, len(self._parts), TOGETHER):
            await self._pace.step()
            for part in self._parts[begin : begin + TOGETHER]:
                if part.acquired or (part.error and part.error is not told.get(part.place)):
                    return True
        return False

    def _next_look(self, deadline: float) -> float:
        """Return when to look again, if there are no news until then."""
        if not self._is_refused:
            return deadline
        pause_s, self._refused_s = self._refused_s, min(2 * self._refused_s, REFUSED_S_MAX)
        return min(deadline, asyncio.get_running_loop().time() + pause_s)

    async def _watch(self) -> None:
        """Before anything is looked at, so that no change is missed."""
        for part in self._parts:
            await self._pace.step()
            assert part.hosted is not None
            self._broker.shares.watchers.watch(part.key, self._wait)
            part.hosted.park(self._wait, -1)

    async def _leave(self) -> None:
        """Watch nothing any more; at once if this is broken off meanwhile."""
        left = [*self._parts]
        try:
            while left:
                await self._pace.step()
                self._leave_one(left.pop())
        finally:
            for part in left:
                self._leave_one(part)

    def _leave_one(self, part: SharePart) -> None:
        assert part.hosted is not None
        self._broker.shares.watchers.leave(part.key, self._wait)
        part.hosted.leave(self._wait)

    async def _is_woken(self, deadline: float) -> bool:
        """Wait for news; False if the time is over or the client has gone."""
        loop = asyncio.get_running_loop()
        self._broker.stats.fetches_parked += 1
        self._sessions.waiting += 1
        try:
            async with self._broker.long_places.away():
                while not await self._wait.until(min(GONE_CHECK_S, deadline - loop.time())):
                    if loop.time() >= deadline or self._is_gone:
                        return False
                if self._sessions.waiting > FEW:
                    await self._broker.turns.next()
            return True
        finally:
            self._sessions.waiting -= 1

    # One look

    async def _look(self, *, is_last: bool) -> bool:
        """Read and hand out; return whether to look again at once."""
        wanted = await self._find()
        if not wanted:
            return False
        reads = await self._read(wanted)
        size = sum(read.size for _, read in reads)
        if not is_last and size < self._limits.min_bytes and not self._has_failed(reads):
            return False
        again = False
        for part, read in reads:
            await self._pace.step(cost_of(read.size))
            if self._left <= 0 or self._is_gone:
                return False
            again = self._take(part, read) or again
        return again and not await self._has_result()

    async def _find(self) -> list[tuple[SharePart, int]]:
        """Return the partitions that may have something, and from which offset on."""
        found: list[tuple[SharePart, int]] = []
        self._is_asking = self._is_refused = self._is_early = False
        self._ready_until = asyncio.get_running_loop().time() + READY_S
        for part in self._parts:
            await self._pace.step()
            part.error = ErrorCode.NONE
            outlook = await self._outlook(part)
            if outlook is None or not outlook.room:
                continue
            assert part.hosted is not None
            end = part.hosted.member.high_watermark(part.hosted.log)
            if end is None or outlook.next_offset < end:
                found.append((part, outlook.next_offset))
                if len(found) >= READ_MAX:
                    break
        if self._is_early:
            await asyncio.sleep(RETRY_S)
            self._wait.on_share()
        return found

    async def _outlook(self, part: SharePart) -> Outlook | None:
        """Return what may be handed out, of a share that has begun and is not behind its log."""
        broker, hosted, key = self._broker, part.hosted, part.key
        assert hosted is not None
        outlook = broker.shares.outlook(key)
        if isinstance(outlook, Unavailable):
            await self._make_ready(part, outlook)
            outlook = broker.shares.outlook(key)
        if isinstance(outlook, Unavailable):
            return None
        log_start = first_offset(hosted, broker.tier)
        if log_start is not None and outlook.start_offset < log_start:
            await moved(broker, key, log_start, Move.ADVANCE)
            outlook = broker.shares.outlook(key)
        return None if isinstance(outlook, Unavailable) else outlook

    async def _make_ready(self, part: SharePart, why: Unavailable) -> None:
        """Have a share loaded, or begun; what can not be helped is the partition's error."""
        hosted = part.hosted
        assert hosted is not None
        if self._is_gone:
            return
        try:
            hosted.check_still_led()
            hosted.member.check_readable()
            why_not: WhyNot | None = await self._loaded(part.key, why)
            if why_not is Unavailable.NOT_STARTED:
                if not self._may_begin(part, hosted):
                    return
                why_not = await self._begun(part, hosted)
        except PlatformError as error:
            part.error = error_code_of(error)
            return
        if why_not in {Unavailable.FULL, Unavailable.LOADING}:
            self._is_early = True
        elif why_not is not None:
            part.error = code_of(why_not)

    async def _loaded(self, key: ShareKey, why: Unavailable) -> Unavailable | None:
        """Have a share loaded; in a set without shares it has not begun, and no place is made."""
        has_place = self._broker.share_places.internal_partition_of(key) is not None
        if why is Unavailable.NOT_STARTED or not has_place:
            return Unavailable.NOT_STARTED
        return await ready(self._broker, key, self._ready_until)

    def _may_begin(self, part: SharePart, hosted: HostedPartition) -> bool:
        """Whether the group knows of the share; it is asked if need be, and wakes this fetch."""
        said = self._admissions.of(part.key, hosted.member.leader_epoch)
        self._is_asking |= said is None
        part.error = said or ErrorCode.NONE
        self._is_refused |= bool(part.error)
        return said is ErrorCode.NONE

    async def _begun(self, part: SharePart, hosted: HostedPartition) -> WhyNot | None:
        """Have the place of a share made, and the share begun there; return why not, if so."""
        why_not = await ready(self._broker, part.key, self._ready_until)
        if why_not is not Unavailable.NOT_STARTED:
            return why_not

        def may() -> bool:
            return self._admissions.take(part.key, hosted.member.leader_epoch)

        return await start(self._broker, part.key, hosted, self._keys.reset, self._request, may=may)

    async def _read(
        self, wanted: Sequence[tuple[SharePart, int]]
    ) -> list[tuple[SharePart, PartitionRead]]:
        """Read from these offsets on."""
        broker, connection = self._broker, self._request.connection
        most = self._limits.max_bytes
        reads = [
            PartitionRead(WantedPartition(part.place, offset, most), part.hosted)
            for part, offset in wanted
        ]
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: object = None) -> None:
            if not done.done():
                done.set_result(None)

        consumer = Consumer(
            room=connection,
            turn=partial(broker.look_ups.ask, connection),
            tier=TierClient(connection, self._wait.on_share),
            is_committed=self._keys.is_committed,
        )
        operation = FetchOperation(
            broker, reads, min_bytes=0, max_bytes=most, on_done=end, consumer=consumer
        )
        for read in reads:
            read.clear()
        # Where the client has gone, there is no answer: only its end is told.
        operation.on_end = lambda: _soon(broker, end)
        operation.start(0)
        async with broker.long_places.away():
            await done
        return [(part, read) for (part, _), read in zip(wanted, reads, strict=True)]

    def _has_failed(self, reads: Sequence[tuple[SharePart, PartitionRead]]) -> bool:
        return any(read.error is not None for _, read in reads)

    def _take(self, part: SharePart, read: PartitionRead) -> bool:
        """Hand out of what was read; return whether the share has moved, and may have more."""
        if read.error is not None:
            is_behind = isinstance(read.error, OffsetOutOfRange)
            part.error = ErrorCode.NONE if is_behind else error_code_of(read.error)
            return is_behind
        outlook = self._broker.shares.outlook(part.key)
        if not read.size or isinstance(outlook, Unavailable):
            return False
        if outlook.next_offset < read.wanted.fetch_offset:
            return True  # something that was not read came back
        found = look(read.buffers, read.wanted.fetch_offset, read.aborted)
        return self._hand_out(part, found)

    def _hand_out(self, part: SharePart, found: Found) -> bool:
        ends = () if self._limits.is_strict else found.batch_ends
        wanted = Wanted(
            self._session.member, self._left, found.end, self._keys.lock_ms, found.absent, ends
        )
        handed = self._broker.shares.acquire(part.key, wanted)
        if isinstance(handed, Unavailable):
            return False
        if not handed.runs:
            return bool(found.absent)
        part.buffers = bytes_of(found, handed.runs)
        size = self._limits.batch_size
        part.acquired = ranges_of(handed.runs, handed.counts, found.batch_ends, size)
        self._left -= len(handed.counts)
        self._session.served(part.place)
        return False


def _soon(broker: Broker, run: Callable[[], None]) -> None:
    broker.scheduler.call_soon(run)
