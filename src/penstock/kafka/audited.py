"""Adds what requests cost, and what they take and give of partitions, to the rows of the audit.

    dispatch ─► AuditedMeasure ─► the row of the client and the API; then the counters of the API
    produce  ─► note_produced  ─► the row of the client, Produce and the partition
    fetch    ─► note_fetched   ─► the row of the client, Fetch and the partition

A connection keeps the rows it adds to until the fold is over, so that a row is found by the topic
as requests name it, and requests of a run are added together (audit/counts.py).

Rows of partitions count bytes of batches and records, those of clients bytes on the wire. Records
of a fetch are the offsets from the one that was asked for to the end of what was found: fewer
records where some were removed. Share fetches have no rows of partitions. Errors in a partition
that nobody knows are in the client's row, so that invented names make no rows.

Source: KIP-13's identity of a client (principal and client id), KIP-511 (software).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.audit.compiled import count_batches
from penstock.audit.row import TEXT_KEPT_MAX, RowKey, Who
from penstock.broker.api_stats import NOT_TIMED
from penstock.kafka.gate import topics_by_key
from penstock.protocol.api_keys import ApiKey
from penstock.storage.commit_log.set_log import NO_MORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.audit.counts import Counts
    from penstock.audit.fold import Fold
    from penstock.broker.api_stats import Measure
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.kafka.context import RequestContext, Software
    from penstock.kafka.registry import Api
    from penstock.protocol.produce import PartitionAnswer, PartitionData

_PRODUCE: Final = ApiKey.PRODUCE
"""As a constant, since accessing a member of an enum costs a look-up each time."""
KEPT_MAX: Final = 256
"""Rows of partitions that a connection keeps for an API: 20 KB. More are looked up again."""


def who_is(context: RequestContext) -> Who:
    """Return the client as rows name it: by its address alone while anybody could be it."""
    if context.is_unproven:
        return Who(context.principal, "", "", "", context.host)
    name, version = context.software
    principal, client_id = context.principal, context.client_id or ""
    return Who(principal[:TEXT_KEPT_MAX], client_id[:TEXT_KEPT_MAX], name, version, context.host)


class AuditedMeasure:
    """A `Measure` that adds to a row, then to the counters behind it."""

    __slots__ = (
        "_fold",
        "_generation",
        "_kept",
        "_key",
        "_own",
        "_rows",
        "is_unproven",
        "principal",
        "software",
        "total",
    )

    def __init__(self, fold: Fold, context: RequestContext, total: Measure, api: Api) -> None:
        self._fold = fold
        self._key = RowKey(who_is(context), api.name)
        self.is_unproven = context.is_unproven
        self.principal = context.principal
        self.software: Software = context.software
        self.total = total
        self._rows: dict[bytes, dict[int, Counts]] = {}
        """By topic as requests name it, and partition; of the fold of `_generation`."""
        self._kept = 0
        self._renew()

    def _renew(self) -> Counts:
        """Begin with the rows of the present fold; return the client's own."""
        self._generation = self._fold.generation
        self._rows.clear()
        self._kept = 0
        self._own: Counts = self._fold.row(self._key)
        return self._own

    @property
    def own(self) -> Counts:
        """The row of the client and the API."""
        return self._own if self._generation == self._fold.generation else self._renew()

    @property
    def rows(self) -> dict[bytes, dict[int, Counts]]:
        """The rows of partitions that this connection has added to in this fold."""
        if self._generation != self._fold.generation:
            self._renew()
        return self._rows

    def row(self, topic: bytes, partition: int, name: str) -> Counts:
        """Return the row of a partition that is not kept, and keep it.

        `topic` is the topic's id or name, as in the request.
        """
        who, operation, _, _ = self._key
        found = self._fold.row(RowKey(who, operation, name, partition))
        if self._kept >= KEPT_MAX:
            self._rows.clear()
            self._kept = 0
        self._kept += 1
        self._rows.setdefault(topic, {})[partition] = found
        return found

    def received(self, size: int, count: int = 1) -> None:
        """Count `count` requests of `size` bytes together."""
        self.total.received(size, count)
        row = self._own if self._generation == self._fold.generation else self._renew()
        row.requests += count
        row.bytes_in += size

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None:
        """Count a sent answer; its wait is part of the latency."""
        self.total.answered(size, waited_us)
        row = self._own if self._generation == self._fold.generation else self._renew()
        row.bytes_out += size
        if waited_us != NOT_TIMED:
            row.latency_us += waited_us
            row.latency_us_max = max(row.latency_us_max, waited_us)

    def handled(self, microseconds: int) -> None:
        """Count a handler that has returned."""
        self.total.handled(microseconds)
        row = self._own if self._generation == self._fold.generation else self._renew()
        row.timed += 1
        row.latency_us += microseconds
        row.latency_us_max = max(row.latency_us_max, microseconds)

    def took_turn(self, microseconds: int) -> None:
        """Count one slice of a request on the loop; it is within the wait."""
        self.total.took_turn(microseconds)

    def throttled(self, delay_ms: int) -> None:
        """Count the delay that the client was told."""
        self.total.throttled(delay_ms)
        self.own.throttle_ms += delay_ms


def audited(fold: Fold, context: RequestContext, total: Measure, api: Api) -> AuditedMeasure:
    """Return the measure of the client's requests of an API; the same until the client changes."""
    by_api = context.audited
    if by_api is None:
        by_api = context.audited = {}
    known = by_api.get(api.key)
    if (
        not isinstance(known, AuditedMeasure)
        or known.total is not total
        or known.software is not context.software
        or known.principal != context.principal
        or known.is_unproven is not context.is_unproven
    ):
        known = by_api[api.key] = AuditedMeasure(fold, context, total, api)
    return known


def note_produced(
    context: RequestContext,
    memory: memoryview,
    parts: list[PartitionData],
    answers: list[PartitionAnswer],
    *,
    by_id: bool,
) -> None:
    """Count the batches that were appended, or that the log had already, and those refused.

    `answers` are of the first of `parts`. `by_id`: the request names topics by id.
    """
    assert context.audited is not None
    measure = context.audited[_PRODUCE]
    assert isinstance(measure, AuditedMeasure), measure

    def missing(topic: bytes, partition: int) -> Counts:
        hosted = topics_by_key(context.broker, by_id).get(topic)
        if hosted is None or not 0 <= partition < len(hosted.partitions):
            return measure.own
        return measure.row(topic, partition, hosted.name)

    count_batches(measure.rows, memory, parts, answers, missing)


def note_fetched(measure: Measure, reads: Sequence[PartitionRead]) -> None:
    """Count what a fetch found in partitions; those without records and errors have no row."""
    assert isinstance(measure, AuditedMeasure), measure
    rows = measure.rows
    for read in reads:
        if not (read.size or read.error):
            continue
        hosted = read.hosted
        if hosted is None:
            measure.own.errors += 1
            continue
        topic, partition = read.wanted.key
        of_topic = rows.get(topic)
        row = None if of_topic is None else of_topic.get(partition)
        if row is None:
            row = measure.row(topic, partition, hosted.topic.name)
        if read.error:
            row.errors += 1
            continue
        row.requests += 1
        row.bytes_out += read.size
        row.bytes_cold += read.is_cold * read.size
        end = read.high_watermark if read.next_offset == NO_MORE else read.next_offset
        row.records += max(0, end - read.wanted.fetch_offset)
