"""What a request of RocketMQ's clients costs them: counted against quotas, and in the audit.

    request ─► bytes of a send counted ─► over? its connection takes no more requests meanwhile
    gate    ─► the partition that it is about, and which permission it used
    handler ─► loop time counted
    answer  ─► bytes of what is read counted ─► rows ─► delay ─► sent ─► muted for the delay

Their protocols have no field for a delay: a client that is over a quota waits for its next answer.
A front makes a meter where there are quotas or the audit is on, and none else. Time that is spent
after the handler has returned is not counted.

Source: KIP-13, KIP-124, KIP-219 as in kafka/throttled.py, which tells Kafka's clients the delay.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from penstock.audit.row import NO_PARTITION, TEXT_KEPT_MAX, RowKey, Who
from penstock.broker.errors import MutationQuotaExceeded
from penstock.quotas.keys import QuotaKey

if TYPE_CHECKING:
    from penstock.audit.compiled import Counts
    from penstock.broker.broker import Broker
    from penstock.quotas.table import ClientBuckets
    from penstock.quotas.tokens import TokenBucket
    from penstock.quotas.windows import Windows

MICROSECONDS_OF_PERCENT: Final = 10_000
"""Loop time in a percent of a second of one thread."""


class Kind(Enum):
    """Which bytes of a request count."""

    SEND = auto()
    """Those of the request: `producer_byte_rate`."""
    READ = auto()
    """Those of the answer: `consumer_byte_rate`."""
    OTHER = auto()


class MeteredClient(Protocol):
    """A client, as fronts keep it for each connection."""

    client_id: str
    software: tuple[str, str]
    buckets: ClientBuckets | None
    """What it fills, as it was found last."""

    @property
    def principal(self) -> str: ...

    @property
    def host(self) -> str: ...

    def mute(self, delay_ms: int | None) -> None:
        """Take no more requests of it for this time; with None until there is a time."""


class RequestMeter:
    """See the module; one for each request."""

    __slots__ = ("_broker", "_buckets", "_client", "_kind", "_operation", "_place", "_size", "_us")

    def __init__(
        self, broker: Broker, client: MeteredClient, operation: str, kind: Kind, size: int
    ) -> None:
        """`size` is that of the request on the wire."""
        self._broker, self._client = broker, client
        self._operation, self._kind, self._size = operation, kind, size
        self._place: tuple[str, int] | None = None
        self._us = broker.clock.monotonic_us()
        self._buckets = _buckets_of(broker, client)
        produce = self._bytes_bucket(Kind.SEND)
        if produce is not None:
            now_ms = broker.clock.monotonic_ms()
            produce.record(size, now_ms)
            if produce.delay_ms(now_ms):
                client.mute(None)

    def about(self, topic: str, partition: int) -> None:
        """Note what the request sends to or reads."""
        self._place = topic, partition

    def handled(self) -> None:
        """Count the time of the handler, which has returned."""
        bucket = None if self._buckets is None else self._buckets.request
        if bucket is not None:
            clock = self._broker.clock
            microseconds = clock.monotonic_us() - self._us
            bucket.record(microseconds / MICROSECONDS_OF_PERCENT, clock.monotonic_ms())

    def answered(self, size: int, *, records: int = 0, payload: int = 0, failed: bool) -> None:
        """Count an answer of `size` bytes that is about to be sent, and mute.

        `payload` is what of request or answer are messages.
        """
        fetch = self._bytes_bucket(Kind.READ)
        if fetch is not None:
            fetch.record(size, self._broker.clock.monotonic_ms())
        delay_ms = self._delay_ms()
        self._note(size, records, payload, delay_ms, failed=failed)
        if delay_ms or self._bytes_bucket(Kind.SEND) is not None:
            self._client.mute(delay_ms)

    def _bytes_bucket(self, kind: Kind) -> Windows | None:
        if kind is not self._kind or self._buckets is None:
            return None
        return self._buckets.produce if kind is Kind.SEND else self._buckets.fetch

    def _delay_ms(self) -> int:
        """Return the longest delay of the quotas that the request is under, and count it."""
        if self._buckets is None:
            return 0
        now_ms = self._broker.clock.monotonic_ms()
        found, over = 0, QuotaKey.REQUEST
        for key, bucket in (
            (QuotaKey.REQUEST, self._buckets.request),
            (QuotaKey.PRODUCE, self._bytes_bucket(Kind.SEND)),
            (QuotaKey.FETCH, self._bytes_bucket(Kind.READ)),
        ):
            own = 0 if bucket is None else bucket.delay_ms(now_ms)
            if own > found:
                found, over = own, key
        if found:
            self._broker.quota_table.note(over, found)
        return found

    def _note(self, size: int, records: int, payload: int, delay_ms: int, *, failed: bool) -> None:
        """Add to the row of the client, and to that of the partition."""
        audit = self._broker.audit
        if audit is None:
            return
        own = audit.fold.row(RowKey(who_is(self._client), self._operation))
        own.requests += 1
        own.bytes_in += self._size
        own.bytes_out += size
        own.throttle_ms += delay_ms
        took_us = self._broker.clock.monotonic_us() - self._us
        own.timed += 1
        own.latency_us += took_us
        own.latency_us_max = max(own.latency_us_max, took_us)
        if self._place is None:
            own.errors += failed
        elif failed or records:
            self._note_place(audit.fold.row(self._row_key()), records, payload, failed=failed)

    def _row_key(self) -> RowKey:
        topic, partition = self._place or ("", NO_PARTITION)
        return RowKey(who_is(self._client), self._operation, topic, partition)

    def _note_place(self, row: Counts, records: int, payload: int, *, failed: bool) -> None:
        if failed:
            row.errors += 1
            return
        row.requests += 1
        row.records += records
        if self._kind is Kind.SEND:
            row.bytes_in += payload
        else:
            row.bytes_out += payload


def meter_of(
    broker: Broker, client: MeteredClient, operation: str, kind: Kind, size: int
) -> RequestMeter | None:
    """Return the meter of a request; None where nothing is counted."""
    if broker.quotas is None and broker.audit is None:
        return None
    return RequestMeter(broker, client, operation, kind, size)


def spend_mutations(broker: Broker, client: MeteredClient, partitions: int) -> None:
    """Count partitions that a client makes or deletes.

    Raises MutationQuotaExceeded, and counts nothing, while it owes some.
    """
    bucket = _mutations_of(broker, client)
    if bucket is not None and not bucket.take(partitions, broker.clock.monotonic_ms()):
        raise MutationQuotaExceeded


def owe_mutations(broker: Broker, client: MeteredClient, partitions: int) -> None:
    """Count partitions that were made, and not counted before: how many was not known."""
    bucket = _mutations_of(broker, client)
    if bucket is not None:
        bucket.owe(partitions, broker.clock.monotonic_ms())


def _mutations_of(broker: Broker, client: MeteredClient) -> TokenBucket | None:
    buckets = _buckets_of(broker, client)
    return None if buckets is None else buckets.mutations


def who_is(client: MeteredClient) -> Who:
    """Return the client as rows name it."""
    name, version = client.software
    return Who(
        client.principal[:TEXT_KEPT_MAX],
        client.client_id[:TEXT_KEPT_MAX],
        name[:TEXT_KEPT_MAX],
        version[:TEXT_KEPT_MAX],
        client.host,
    )


def _buckets_of(broker: Broker, client: MeteredClient) -> ClientBuckets | None:
    """Return what the client fills; found again after a change of quotas or of who it is."""
    table = broker.quotas
    if table is None:
        return None
    client_id, known = client.client_id[:TEXT_KEPT_MAX], client.buckets
    if known is None or known.generation != table.generation or known.principal != client.principal:
        now_ms = broker.clock.monotonic_ms()
        known = client.buckets = table.client(client.principal, client_id, now_ms)
    return known
