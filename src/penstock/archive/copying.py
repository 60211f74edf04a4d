"""A run: what a topic has and its archive lacks is copied, and committed chunk by chunk.

    entry "began" ─► sweep ─► partition by partition: read, write files ─► entry "added" ─► ...

The entry in front fences runs before it: what they put from then on is not committed. A run ends
where the topic's decided records ended as it began. Whenever it dies, the next one goes on at the
end of the last entry; what lay behind it is deleted and copied again.

Only committed records are copied. Where they come from is the source's affair: brokers, which read
what only the tier has, or the store that a lost cluster has left.

Source: docs/adr/0164, docs/adr/0178.
"""

import secrets
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.archive.chunks import ChunkWriter
from penstock.archive.entries import FORMAT, Added, Began, Chunk
from penstock.archive.errors import ArchiveMismatch, PlaceUnfit, RecordsGone
from penstock.archive.files import OWN
from penstock.archive.ledger import Ledger
from penstock.archive.manifest import Manifest
from penstock.archive.source import RecordSource, Span
from penstock.archive.sweeping import sweep, unnamed
from penstock.spark.errors import DataLost
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.spark.reading import warn_of_corrupt

CHUNK_BYTES = 64 << 20
"""Of rows in memory, about; a file takes no more on disk. A chunk is read whole for a replay."""
RUN_BYTES = 6
"""Random, of the id of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a run is told."""

    topic: str
    keep_ms: int | None = None
    """None: as before; 0: for ever."""
    allow_gap: bool = False
    """Go on behind records that are gone, and write down which."""
    skip_corrupt: bool = False
    chunk_bytes: int = CHUNK_BYTES


@dataclass(slots=True)
class RunSummary:
    """What a run has done."""

    records: int = 0
    chunks: int = 0
    swept: int = 0
    ends: dict[int, int] = field(default_factory=dict)


def copy_topic(
    ledger: Ledger,
    source: RecordSource,
    options: RunOptions,
    on_offsets: Callable[[int, int], None] = lambda _done, _total: None,
) -> RunSummary:
    """Bring an archive to where its topic is; make it, if there is none.

    Raises ArchiveError kinds, StoreError, CorruptRecords, and what the source raises.
    """
    manifest = ledger.load()
    topic_id = source.topic_id()
    _check_topic(ledger, options.topic, topic_id)
    spans = source.spans()
    _check_place(ledger)
    ranges = [
        wanted
        for number, own in sorted(spans.items())
        for wanted in _ranges(
            ledger, PartitionName(options.topic, number), own, may_lose=options.allow_gap
        )
    ]
    run = secrets.token_hex(RUN_BYTES)
    keep_ms = manifest.keep_ms if options.keep_ms is None else options.keep_ms
    if _has_nothing_to_do(ledger, ranges, keep_ms):
        return RunSummary(ends=_ends(manifest))
    ledger.commit(
        Began(format=FORMAT, run=run, topic=options.topic, topic_id=topic_id, keep_ms=keep_ms)
    )
    lows = {number: own[0][0] for number, own in spans.items()}
    summary = RunSummary(swept=sweep(ledger.files, ledger.manifest, lows))
    with tempfile.TemporaryDirectory(prefix="penstock-archive-") as scratch:
        work = _Copy(ledger, source, options, run, Path(scratch))
        work.on_offsets, work.total = on_offsets, sum(one.length for one in ranges)
        for wanted in ranges:
            work.copy(wanted, summary)
        work.commit(summary)
    summary.ends = _ends(manifest)
    return summary


def _has_nothing_to_do(ledger: Ledger, ranges: list[OffsetRange], keep_ms: int) -> bool:
    """Whether a run would change nothing: then it needs no entry, of which none is ever deleted."""
    manifest = ledger.manifest
    return (
        not ledger.is_new
        and keep_ms == manifest.keep_ms
        and not any(wanted.length for wanted in ranges)
        and not unnamed(ledger.files, manifest)
    )


def _ends(manifest: Manifest) -> dict[int, int]:
    return {number: part.end for number, part in sorted(manifest.parts.items())}


class _Copy:
    """The chunks of one run; those of an entry wait until they are bytes enough."""

    def __init__(
        self, ledger: Ledger, source: RecordSource, options: RunOptions, run: str, scratch: Path
    ) -> None:
        self._ledger, self._source, self._options = ledger, source, options
        self._run, self._scratch = run, scratch
        self._waiting: list[Chunk] = []
        self._waiting_bytes = self._done = 0
        self._ends = {number: part.end for number, part in ledger.manifest.parts.items()}
        """Of each partition, with what waits."""
        self.total = 0
        self.on_offsets: Callable[[int, int], None] = lambda _done, _total: None

    def copy(self, wanted: OffsetRange, summary: RunSummary) -> None:
        """Copy a range of one partition."""
        while wanted.length:
            chunk = self._chunk(wanted, self._ends.get(wanted.partition, wanted.start))
            self._done += chunk.end - chunk.start
            self.on_offsets(self._done, self.total)
            if self._waiting_bytes >= self._options.chunk_bytes:
                self.commit(summary)
            self._ends[wanted.partition] = chunk.end
            wanted = wanted._replace(start=chunk.end)

    def _chunk(self, wanted: OffsetRange, gap_start: int) -> Chunk:
        """Copy the first chunk of a range: all of it, or bytes enough."""
        end = wanted.start
        with self._writer(wanted) as writer, closing(self._rows(wanted)) as batches:
            for rows in batches:
                writer.write(rows)
                end = rows.column("offset")[-1].as_py() + 1
                self.on_offsets(self._done + end - wanted.start, self.total)
                if writer.size_bytes >= self._options.chunk_bytes:
                    break
            else:
                end = wanted.end
            chunk = writer.finish(end, gap_start)
        self._waiting.append(chunk)
        self._waiting_bytes += writer.size_bytes
        return chunk

    def commit(self, summary: RunSummary) -> None:
        """Write an entry with the chunks that wait."""
        if not self._waiting:
            return
        _check_topic(self._ledger, self._options.topic, self._source.topic_id())
        self._ledger.commit(Added(run=self._run, chunks=tuple(self._waiting)))
        summary.records += sum(chunk.rows for chunk in self._waiting)
        summary.chunks += len(self._waiting)
        self._waiting, self._waiting_bytes = [], 0

    def _writer(self, wanted: OffsetRange) -> ChunkWriter:
        return ChunkWriter(self._ledger.files, self._scratch, wanted, self._run)

    def _rows(self, wanted: OffsetRange) -> Generator[pa.RecordBatch, None, None]:
        on_corrupt = warn_of_corrupt if self._options.skip_corrupt else None
        try:
            yield from self._source.rows(wanted, on_corrupt)
        except DataLost as error:
            if error.found > error.wanted:
                raise _gone(wanted.name, error.wanted, error.found) from error
            raise _shorter(wanted.name, error.wanted, error.found) from error


def _check_topic(ledger: Ledger, topic: str, topic_id: str) -> None:
    """Raise ArchiveMismatch unless the archive is of this very topic."""
    manifest = ledger.manifest
    if ledger.is_new:
        return
    if manifest.topic != topic:
        raise ArchiveMismatch(
            f"this is the archive of the topic {manifest.topic}: keep {topic} at another place"
        )
    if manifest.topic_id and topic_id and manifest.topic_id != topic_id:
        raise ArchiveMismatch(
            f"topic {topic} was deleted and created again: its offsets are others than those of"
            " this archive; keep it at another place"
        )


def _check_place(ledger: Ledger) -> None:
    """Raise PlaceUnfit for a new archive where a second writer would not be refused."""
    if ledger.is_new and not ledger.files.refuses_second(f"{OWN}/probe"):
        raise PlaceUnfit(
            "this store accepts a second object under a name that is taken, so that two runs"
            " could both count: choose another place for the archive"
        )


def _ranges(
    ledger: Ledger, name: PartitionName, spans: Sequence[Span], *, may_lose: bool
) -> Iterable[OffsetRange]:
    """Yield what is to be copied of a partition, in order. Raises RecordsGone."""
    part = ledger.manifest.parts.get(name.partition)
    at = spans[0][0] if part is None else part.end
    if at > spans[-1][1]:
        raise _shorter(name, at, spans[-1][1])
    for start, end in spans:
        if end < at:
            continue
        if start > at and not may_lose:
            raise _gone(name, at, start)
        yield OffsetRange(*name, max(at, start), end)
        at = end


def _shorter(name: PartitionName, start: int, found: int) -> RecordsGone:
    return RecordsGone(
        f"{name} ends at offset {found}, and its archive is at {start}: the topic has lost what it"
        " had confirmed, and what comes now is not what the archive has; keep it at another place"
    )


def _gone(name: PartitionName, start: int, found: int) -> RecordsGone:
    return RecordsGone(
        f"offsets {start} to {found} of {name} are gone and were never archived: --allow-gap goes"
        " on behind them, and writes down that they are missing; archive more often than the"
        " topic's retention"
    )
