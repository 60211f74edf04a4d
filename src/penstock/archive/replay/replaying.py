"""Records of an archive into a topic, in transactions that know how far they go.

    fence the id ─► read positions ─► chunk by chunk: read, check ─► transaction, transaction, ...

    a transaction    write and flush ─► are the positions where this replay left them? ─► the new
                     positions ─► commit

The look at the positions comes behind the first write, for which the coordinator has ended what
was open under the id, and fenced it: so either another replay under the id has committed before,
and it is seen, or it can commit nothing any more. Whenever a replay dies, its last transaction
counts wholly or not at all, positions included, and the next replay goes on from there.

Source: docs/adr/0164; KIP-98, KIP-890.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.archive.chunks import US_PER_MS, read_chunk
from penstock.archive.entries import Chunk
from penstock.archive.errors import ReplayStopped
from penstock.archive.files import ArchiveFiles
from penstock.archive.manifest import Manifest
from penstock.archive.replay.pace import Pace
from penstock.archive.replay.plan import Place, Wanted, in_order, wanted_ranges
from penstock.archive.replay.progress import Progress, plan_digest
from penstock.archive.replay.target import check_retention, produce_options
from penstock.client.cluster import Cluster
from penstock.client.ending import end_transactions
from penstock.client.errors import ClientError
from penstock.client.produce import OpenTransaction, ProduceOptions, Producer
from penstock.client.transactions import Transactions
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record

TRANSACTION_RECORDS = 10_000
TRANSACTION_BYTES = 16 << 20
PREFIX = "penstock-replay-"
"""Of the transactional id, and of the group, of a replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What a replay is told."""

    topic: str
    """The target."""
    places: tuple[Place, Place]
    """From where to where."""
    replay_id: str | None = None
    """None: one that follows from archive and target."""
    is_same_partitions: bool = False
    ignores_retention: bool = False
    transaction_records: int = TRANSACTION_RECORDS


@dataclass(slots=True)
class ReplaySummary:
    """What a replay has done, and under which id."""

    replay_id: str
    records: int = 0
    transactions: int = 0


class Replay:
    """One replay; run it once."""

    def __init__(
        self,
        cluster: Cluster,
        files: ArchiveFiles,
        manifest: Manifest,
        options: ReplayOptions,
        pace: Pace | None = None,
    ) -> None:
        self._cluster, self._files, self._manifest = cluster, files, manifest
        self._options = options
        self._pace = pace or Pace(None)
        name = options.replay_id or f"{manifest.archive_id}-{options.topic}"
        self._id = f"{PREFIX}{name}"
        plan = plan_digest(
            [manifest.archive_id, *map(str, options.places), str(options.is_same_partitions)]
        )
        self._progress = Progress(cluster, self._id, options.topic, plan)
        self._positions: dict[int, int] = {}
        self._produce = ProduceOptions()
        self._summary = ReplaySummary(name)

    def run(
        self, on_offsets: Callable[[int, int], None] = lambda _done, _total: None
    ) -> ReplaySummary:
        """Write what is left. Raises ArchiveLies, ReplayRefused, ReplayStopped, ClientErrors."""
        options = self._options
        self._produce = produce_options(
            self._cluster,
            self._manifest,
            options.topic,
            self._id,
            is_same=options.is_same_partitions,
        )
        Transactions(self._cluster).abort(self._id)
        self._positions = self._progress.read()
        wanted = wanted_ranges(self._files, self._manifest, options.places, self._positions)
        chunks = list(in_order(self._manifest, wanted))
        if not options.ignores_retention:
            oldest = min((chunk.first_ms for chunk in chunks if chunk.files), default=None)
            if oldest is not None:
                now_ms = time.time_ns() // 1_000_000
                check_retention(self._cluster, options.topic, oldest, now_ms)
        total = sum(max(0, end - start) for start, end in wanted.values())
        done = 0
        for chunk in chunks:
            start, end = wanted[chunk.partition]
            part = Wanted(max(start, chunk.start), min(end, chunk.end))
            for to in self._replay(chunk, part):
                on_offsets(done + to - part.start, total)
            done += max(0, part.end - part.start)
        on_offsets(total, total)
        return self._summary

    def _replay(self, chunk: Chunk, part: Wanted) -> Iterator[int]:
        """Write a chunk's records within a range; yield the offset behind each transaction."""
        rows = read_chunk(self._files, chunk, self._manifest.topic)
        offsets = rows.column("offset")
        is_in = pc.and_(pc.greater_equal(offsets, part.start), pc.less(offsets, part.end))
        most = self._pace.portion(self._options.transaction_records)
        for portion in _portions(rows.filter(is_in), most):
            self._pace.wait(portion.num_rows)
            to = portion.column("offset")[-1].as_py() + 1
            self._write(chunk.partition, _records(portion), to)
            yield to

    def _write(self, partition: int, records: list[Record], to: int) -> None:
        """Write records in one transaction, with the position behind them."""
        producer = Producer(self._cluster, self._produce)
        try:
            for record in records:
                number = partition if self._options.is_same_partitions else None
                producer.send(self._options.topic, record, partition=number)
            producer.flush()
            transaction = producer.transaction
            assert transaction is not None, "nothing was written"
            self._check_alone()
            positions = {**self._positions, partition: to}
            self._progress.write(transaction, positions, partition)
            self._commit(transaction)
        except BaseException:
            self._give_up(producer.transaction)
            raise
        self._positions = positions
        self._summary.records += len(records)
        self._summary.transactions += 1

    def _check_alone(self) -> None:
        if self._progress.read() != self._positions:
            raise ReplayStopped(
                f"another replay of the id {self._summary.replay_id} has gone on meanwhile; what it"
                " wrote is there once: see that it runs, or run again"
            )

    def _commit(self, transaction: OpenTransaction) -> None:
        outcome = end_transactions(self._cluster, [transaction], is_commit=True)[transaction]
        if outcome is ErrorCode.NONE:
            return
        if outcome is ErrorCode.INVALID_TXN_STATE:
            raise ReplayStopped(
                "a transaction took too long and was aborted by its broker; nothing of it counts:"
                " run again, which goes on where it was"
            )
        raise ReplayStopped(
            f"another replay of the id {self._summary.replay_id} has taken over ({outcome.name})"
        )

    def _give_up(self, transaction: OpenTransaction | None) -> None:
        """Abort what is open, so that readers need not wait for its time-out."""
        if transaction is not None:
            hasty = replace(self._cluster.settings, deadline_ms=2_000)
            with suppress(ClientError), Cluster(hasty) as cluster:
                end_transactions(cluster, [transaction], is_commit=False)


def _portions(rows: pa.Table, most: int) -> Iterator[pa.Table]:
    """Cut rows into portions of at most so many records, and of bytes for one transaction."""
    if not rows.num_rows:
        return
    by_bytes = int(TRANSACTION_BYTES * rows.num_rows / max(1, rows.nbytes))
    step = max(1, min(most, by_bytes))
    for at in range(0, rows.num_rows, step):
        yield rows.slice(at, step)


def _records(rows: pa.Table) -> list[Record]:
    columns: list[list[Any]] = [
        rows.column("key").to_pylist(),
        rows.column("value").to_pylist(),
        rows.column("headers").to_pylist(),
        rows.column("timestamp").cast(pa.int64()).to_pylist(),
    ]
    return [
        Record(key, value, tuple((h["key"], h["value"]) for h in headers or ()), us // US_PER_MS)
        for key, value, headers, us in zip(*columns, strict=True)
    ]
