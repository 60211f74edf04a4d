"""The reply to a request of a client with quotas: it counts, tells the delay, and mutes.

    request ─► bytes of a produce counted ─► over? no more requests meanwhile
            ─► handler ─► loop time counted
            ─► answer: bytes of a fetch counted ─► delay ─► throttle_time_ms ─► sent ─► muted

The delay is the longest of the quotas that the request is under, found out once, as the answer is
made. Time that a handler takes after it has answered counts for the next request.

Source: KIP-13, KIP-124, KIP-219 (answer first), KIP-599; Kafka `RequestHandlerHelper`. Departure: a
connection that goes over by a produce request stops at once, since it may have sent more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.kafka.request import Reply
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import begins_with_throttle
from penstock.quotas.keys import QuotaKey
from penstock.quotas.table import ClientBuckets, QuotaTable
from penstock.quotas.windows import WINDOW_MS

if TYPE_CHECKING:
    from penstock.base.ports import Buffer, Clock
    from penstock.broker.api_stats import Measure
    from penstock.broker.turns import Turns
    from penstock.kafka.context import RequestContext
    from penstock.net.connection import Connection
    from penstock.protocol.header import RequestHeader

CLIENT_ID_CHARACTERS_MAX: Final = 255
"""Longer client ids are cut, and may then share a bucket: an id may be 32 KiB long."""
MICROSECONDS_OF_PERCENT: Final = 10_000
"""Loop time in a percent of a second of one thread."""
_KEYS: Final[Mapping[int, QuotaKey]] = {
    ApiKey.PRODUCE: QuotaKey.PRODUCE,
    ApiKey.FETCH: QuotaKey.FETCH,
    ApiKey.SHARE_FETCH: QuotaKey.FETCH,
    ApiKey.CREATE_TOPICS: QuotaKey.MUTATIONS,
    ApiKey.DELETE_TOPICS: QuotaKey.MUTATIONS,
    ApiKey.CREATE_PARTITIONS: QuotaKey.MUTATIONS,
}
"""What requests are under beside the quota of their time."""
_PRODUCE, _FETCH, _REQUEST = QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST
"""As constants, since accessing a member of an enum costs a look-up each time."""
_THROTTLE_BYTES: Final = 4


def buckets_of(table: QuotaTable, context: RequestContext, now_ms: int) -> ClientBuckets:
    """Return what the client fills; found again after a change of quotas or of the principal."""
    known = context.buckets
    if (
        known is not None
        and known.generation == table.generation
        and known.principal == context.principal
    ):
        return known
    client_id = (context.client_id or "")[:CLIENT_ID_CHARACTERS_MAX]
    found = context.buckets = table.client(context.principal, client_id, now_ms)
    return found


def reply_of(  # noqa: PLR0913, PLR0917  made for every request, as Reply
    table: QuotaTable,
    context: RequestContext,
    connection: Connection,
    header: RequestHeader,
    clock: Clock,
    measure: Measure,
    started_us: int,
    size: int,
    count: int = 1,
) -> Reply:
    """Return the reply to `count` requests of `size` bytes together.

    A client that has not said yet who it is has no quotas; others may have none. One that has may
    have a guard for as long as it is there, since its proof has an end.
    """
    if connection.guard is not None and not connection.principal:
        return Reply(connection, header, clock, measure, started_us, count)
    now_ms = clock.monotonic_ms()
    buckets = buckets_of(table, context, now_ms)
    if buckets.are_none:
        return Reply(connection, header, clock, measure, started_us, count)
    reply = ThrottledReply(connection, header, clock, measure, started_us, count)
    reply.take(table, buckets, size, now_ms)
    return reply


class ThrottledReply(Reply):
    """See the module; `take` comes first."""

    __slots__ = ("_buckets", "_is_stopped", "_key", "_out", "_table", "_throttle_ms")

    def take(self, table: QuotaTable, buckets: ClientBuckets, size: int, now_ms: int) -> None:
        """Count the request, of `size` bytes."""
        self._table = table
        self._buckets = buckets
        self._throttle_ms = -1
        self._key = key = _KEYS.get(self._header[0], _REQUEST)
        self._out = buckets.fetch if key is _FETCH else None
        self._is_stopped = False
        if buckets.request is not None:
            self.is_timed = True
        produce = buckets.produce
        if produce is not None and key is _PRODUCE:
            produce.record(size, now_ms)
            if produce.delay_ms(now_ms):
                self._is_stopped = True
                self.connection.mute(None)

    @property
    def throttle_ms(self) -> int:  # type: ignore[override]
        """The delay that the answer tells, in milliseconds; a constant where nothing is counted."""
        if self._throttle_ms < 0:
            self._throttle_ms = self._find_delay()
        return self._throttle_ms

    @property
    def fetch_bytes_max(self) -> int | None:  # type: ignore[override]
        """How much a fetch may take now: a second's worth, nothing while the mean is above.

        A constant where nothing is counted.
        """
        bucket = self._buckets.fetch
        if bucket is None:
            return None
        is_over = bucket.delay_ms(self._clock.monotonic_ms()) > 0
        return 0 if is_over else max(1, int(bucket.bound) * WINDOW_MS // 1000)

    def _find_delay(self) -> int:
        now_ms = self._clock.monotonic_ms()
        delay_ms, over = 0, _REQUEST
        for key, bucket in self._buckets.by_key[self._key]:
            own_ms = bucket.delay_ms(now_ms)
            if own_ms > delay_ms:
                delay_ms, over = own_ms, key
        if delay_ms:
            self._table.note(over, delay_ms)
            self._measure.throttled(delay_ms)
        return delay_ms

    # --- loop time -----------------------------------------------------------------------------

    def handled(self) -> None:
        """Count the handler's time, which has returned."""
        super().handled()
        self._count_time(self._handled_us - self.started_us)

    def note_turn(self, microseconds: int) -> None:
        """Count a part of this request that held the loop."""
        super().note_turn(microseconds)
        self._count_time(microseconds)

    def _count_time(self, microseconds: int) -> None:
        bucket = self._buckets.request
        if bucket is not None:
            now_ms = self._clock.monotonic_ms()
            bucket.record(microseconds / MICROSECONDS_OF_PERCENT, now_ms)

    # --- answers -------------------------------------------------------------------------------

    def __call__(self, fields: Mapping[str, object]) -> None:
        """Encode `fields` with the delay and send them."""
        super().__call__(self._with_delay(fields))

    async def in_turns(self, turns: Turns, fields: Mapping[str, object]) -> None:
        """Encode `fields` with the delay in slices, and send them."""
        await super().in_turns(turns, self._with_delay(fields))

    def raw(self, body: Buffer) -> None:
        """Send an encoded body."""
        super().raw(self._counted([body])[0])
        self._mute()

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send a body of several buffers."""
        super().send(self._counted(buffers))
        self._mute()

    def whole(self, answer: bytes) -> None:
        """Send answers to produce requests, which were encoded with the delay."""
        super().whole(answer)
        self._mute()

    def skip(self) -> None:
        """Send no answer; the client is delayed all the same."""
        super().skip()
        self._mute()

    def _with_delay(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put the delay among fields where it does not begin the answer."""
        if _begins_with_throttle(*self._header[:2]) or not self.throttle_ms:
            return fields
        return {**fields, "throttle_time_ms": self.throttle_ms}

    def _counted(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Count the bytes of an answer, and return it with the delay where it begins with one."""
        if self._out is not None:
            self._out.record(sum(map(len, buffers)), self._clock.monotonic_ms())
        if not self.throttle_ms or not _begins_with_throttle(*self._header[:2]):
            return buffers
        head = bytearray(buffers[0])
        head[:_THROTTLE_BYTES] = self.throttle_ms.to_bytes(_THROTTLE_BYTES, "big")
        return [head, *buffers[1:]]

    def _mute(self) -> None:
        if self.throttle_ms or self._is_stopped:
            self.connection.mute(self.throttle_ms)


@cache
def _begins_with_throttle(api_key: int, api_version: int) -> bool:
    return begins_with_throttle(api_key, api_version)
