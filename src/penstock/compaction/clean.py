"""Pass 2: batches of a partition in, what is left of them out, in the same order.

    batch of records   newest of each key stays        whole batch  ─► the same bytes
                       aborted records go              some stay    ─► rewritten
                       tombstones go at their horizon  none stays   ─► dropped, or emptied
    marker             stays while its transaction has a batch, then until its horizon

The first pass that meets a tombstone, or a marker without batches, gives it its horizon, now +
delete.retention.ms; the first one at or after it drops it. Until then whoever began to read before
sees the delete. Kept in any case, if need be without records: the last batch of the pass, and the
batch with a live producer's last sequence. A marker is kept whole or not at all.

Source: Kafka `Cleaner.cleanInto`, `shouldRetainRecord`, `isBatchLastRecordOfProducer`, KIP-534,
KAFKA-4529. Departures: transactions.py; no control batch becomes empty.
It deliberately does not merge batches: sequences and epochs of each stay as they were.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.compaction.key_map import KeyMap
from penstock.compaction.rewrite import emptied, rewritten
from penstock.compaction.sifted import INT64_MAX, Sifted
from penstock.compaction.transactions import PassTransactions
from penstock.extents.layout import Aborted
from penstock.record.batch import BatchHeader
from penstock.record.compression import READER_BOUNDS
from penstock.record.errors import CorruptBatch
from penstock.record.marker import read_marker
from penstock.record.read import iter_raw, open_batch


class LiveProducer(NamedTuple):
    """A producer that the partition remembers."""

    epoch: int
    last_offset: int | None
    """Of the last record of its newest batch; None if its epoch began with a marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """What one pass goes by."""

    end_offset: int
    """Where pass 1 ended (exclusive)."""
    now_ms: int
    delete_retention_ms: int
    live: Mapping[int, LiveProducer] = field(default_factory=dict)
    """By producer id. May be empty where snapshots carry the state of producers."""


@dataclass(slots=True)
class PassReport:
    """What a pass did so far."""

    read_bytes: int = 0
    kept_bytes: int = 0
    read_batches: int = 0
    kept_batches: int = 0
    dropped_records: int = 0
    newest_horizon_ms: int = -1
    """The last horizon that a later pass has to come back for; -1: nothing waits for one."""


class CleaningPass:
    """One pass over one partition, from its first batch on."""

    def __init__(
        self, key_map: KeyMap, rules: CleaningRules, transactions: PassTransactions
    ) -> None:
        """`transactions` has gone through no batch before, but for those of pass 1."""
        self.report = PassReport()
        self._key_map = key_map
        self._rules = rules
        self._transactions = transactions
        self._dropped_markers: set[int] = set()

    def clean(
        self, batches: Iterable[tuple[BatchHeader, memoryview]]
    ) -> Iterator[tuple[BatchHeader, memoryview | bytes]]:
        """Yield what is left of the batches below the end of the pass, with the header of before.

        `batches` come with their headers, in offset order, from the partition's first one on; those
        at and above the end are left alone, and are not yielded. Raises UnlistedAbort, RecordError
        kinds.
        """
        report = self.report
        next_offset = 0
        for header, batch in batches:
            if header.base_offset < next_offset:
                raise CorruptBatch(f"offset {header.base_offset} comes again")
            if header.base_offset >= self._rules.end_offset:
                return
            next_offset = header.last_offset + 1
            report.read_bytes += len(batch)
            report.read_batches += 1
            left = self._marker(header, batch) if header.is_control else self._data(header, batch)
            if left is not None:
                report.kept_bytes += len(left)
                report.kept_batches += 1
                yield header, left

    def aborted_left(self, aborted: Aborted) -> Aborted:
        """Return the list without those whose marker was dropped: one for each that is left."""
        rows = zip(*aborted, strict=True)
        left = [row for row in rows if row[2] not in self._dropped_markers]
        return Aborted(*zip(*left, strict=True)) if left else Aborted()

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether a batch is the last one of the pass, or has a live producer's last sequence."""
        if header.last_offset + 1 == self._rules.end_offset:
            return True
        live = self._rules.live.get(header.producer_id)
        if live is None:
            return False
        if live.last_offset is None:
            return header.is_control and header.producer_epoch == live.epoch
        return not header.is_control and header.last_offset == live.last_offset

    def _data(self, header: BatchHeader, batch: memoryview) -> memoryview | bytes | None:
        left = None if self._transactions.is_aborted(header) else self._sifted(header, batch)
        if left is None:
            self.report.dropped_records += header.record_count
            if not self._must_stay(header):
                return None
            left = emptied(header) if header.record_count else batch
        self._transactions.note_kept(header)
        return left

    def _sifted(self, header: BatchHeader, batch: memoryview) -> memoryview | bytes | None:
        """Return the batch with the records that stay; None if none does."""
        block = open_batch(header, batch, READER_BOUNDS)
        horizon = header.delete_horizon_ms
        keeps_tombstones = horizon is None or self._rules.now_ms < horizon
        sifted = self._key_map.sift(header, block, keeps_tombstones=keeps_tombstones)
        if not sifted.kept:
            return None
        self.report.dropped_records += header.record_count - sifted.kept
        new_horizon = None
        if sifted.tombstones:
            new_horizon = self._horizon(horizon)
        if sifted.kept == header.record_count and new_horizon is None:
            return batch
        return rewritten(header, block, sifted, new_horizon)

    def _horizon(self, present_ms: int | None) -> int | None:
        """Return the horizon to be set, None where there is one; either is to be come back for."""
        rules = self._rules
        new = min(rules.now_ms + rules.delete_retention_ms, INT64_MAX)
        waiting = new if present_ms is None else present_ms
        self.report.newest_horizon_ms = max(self.report.newest_horizon_ms, waiting)
        return new if present_ms is None else None

    def _marker(self, header: BatchHeader, batch: memoryview) -> memoryview | bytes | None:
        marker = read_marker(batch)
        if marker is None:
            return batch
        self._transactions.check(header, marker)
        if self._transactions.end(header):
            return batch
        horizon = header.delete_horizon_ms
        if horizon is None:
            return self._with_horizon(header, batch)
        if self._rules.now_ms < horizon:
            self._horizon(horizon)
            return batch
        if self._must_stay(header):
            return batch
        self._dropped_markers.add(header.base_offset)
        self.report.dropped_records += header.record_count
        return None

    def _with_horizon(self, header: BatchHeader, batch: memoryview) -> bytes:
        block = open_batch(header, batch, READER_BOUNDS)
        newest = max(raw.timestamp_delta for raw in iter_raw(header, block))
        whole = Sifted(header.record_count, 0, newest, [(0, len(block))])
        return rewritten(header, block, whole, self._horizon(None))
