"""Adds what requests cost, and what they take and give of partitions, to the rows of the audit.

    dispatch ─► AuditedMeasure ─► the row of the client and the API; then the counters of the API
    produce  ─► note_appended  ─► the row of the client, Produce and the partition
    fetch    ─► note_fetched   ─► the row of the client, Fetch and the partition

Rows of partitions count bytes of batches and records, those of clients bytes on the wire. Records
of a fetch are the offsets from the one that was asked for to the end of what was found: fewer
records where some were removed. Share fetches have no rows of partitions.

Source: KIP-13's identity of a client (principal and client id), KIP-511 (software).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.audit.row import RowKey, Who
from penstock.broker.api_stats import NOT_TIMED
from penstock.protocol.api_keys import ApiKey
from penstock.storage.commit_log.set_log import NO_MORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.audit.fold import Fold
    from penstock.audit.row import Counts
    from penstock.broker.api_stats import Measure
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.broker.partitions import HostedPartition
    from penstock.kafka.context import RequestContext, Software
    from penstock.kafka.registry import Api

TEXT_KEPT_MAX: Final = 255
"""Characters of a principal and of a client id in rows: longer ones may coincide."""
RECORD_COUNT_AT: Final = 57
"""Where a batch has its count of records, in four bytes."""


def who_is(context: RequestContext) -> Who:
    """Return the client as rows name it."""
    name, version = context.software
    principal, client_id = context.principal, context.client_id or ""
    return Who(principal[:TEXT_KEPT_MAX], client_id[:TEXT_KEPT_MAX], name, version, context.host)


class AuditedMeasure:
    """A `Measure` that adds to a row, then to the counters behind it."""

    __slots__ = ("_fold", "_key", "_local_us", "principal", "software", "times_all", "total")

    def __init__(self, fold: Fold, context: RequestContext, total: Measure, api: Api) -> None:
        self._fold = fold
        self._key = RowKey(who_is(context), api.name)
        self.principal = context.principal
        self.software: Software = context.software
        self.total = total
        self.times_all = total.times_all

    def received(self, size: int, count: int = 1) -> None:
        """Count `count` requests of `size` bytes together."""
        self.total.received(size, count)
        row = self._fold.row(self._key)
        row.requests += count
        row.bytes_in += size

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None:
        """Count a sent answer; its wait is part of the latency."""
        self.total.answered(size, waited_us)
        row = self._fold.row(self._key)
        row.bytes_out += size
        if waited_us != NOT_TIMED:
            row.latency_us += waited_us
            row.latency_us_max = max(row.latency_us_max, waited_us)

    def handled(self, microseconds: int) -> None:
        """Count a handler that has returned."""
        self.total.handled(microseconds)
        row = self._fold.row(self._key)
        row.timed += 1
        row.latency_us += microseconds
        row.latency_us_max = max(row.latency_us_max, microseconds)

    def took_turn(self, microseconds: int) -> None:
        """Count one slice of a request on the loop; it is within the wait."""
        self.total.took_turn(microseconds)

    def throttled(self, delay_ms: int) -> None:
        """Count the delay that the client was told."""
        self.total.throttled(delay_ms)
        self._fold.row(self._key).throttle_ms += delay_ms

    def row_of(self, hosted: HostedPartition) -> Counts:
        """Return the row of what this client does by this API with a partition."""
        who, operation, _, _ = self._key
        partition = hosted.log.topic_partition.partition
        return self._fold.row(RowKey(who, operation, hosted.topic.name, partition))


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
    ):
        known = by_api[api.key] = AuditedMeasure(fold, context, total, api)
    return known


def note_appended(context: RequestContext, hosted: HostedPartition, batch: memoryview) -> None:
    """Count a batch that was appended, or that the log had already."""
    assert context.audited is not None
    measure = context.audited[ApiKey.PRODUCE]
    assert isinstance(measure, AuditedMeasure), measure
    row = measure.row_of(hosted)
    row.requests += 1
    row.records += int.from_bytes(batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4], "big")
    row.bytes_in += len(batch)


def note_fetched(measure: Measure, reads: Sequence[PartitionRead]) -> None:
    """Count what a fetch found in partitions; those without records and errors have no row."""
    assert isinstance(measure, AuditedMeasure), measure
    for read in reads:
        hosted = read.hosted
        if hosted is None or not (read.size or read.error):
            continue
        row = measure.row_of(hosted)
        row.requests += 1
        row.errors += read.error is not None
        row.bytes_out += read.size
        if read.size:
            end = read.high_watermark if read.next_offset == NO_MORE else read.next_offset
            row.records += max(0, end - read.wanted.fetch_offset)
