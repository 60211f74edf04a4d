"""Plans what is read from the store: asks brokers what the tier has, and the store what it decides.

    range   [ not in the tier | piece │ piece │ piece | behind the tier ... )
              brokers           a task each             brokers

A piece ends at the end of a run, and never behind what the tier decides: for readers of committed
records an aborted transaction whose marker is not copied yet would be missing. It holds for a
lease: until then no object of it is deleted, whatever happens to its partition.

Source: docs/adr/0154; docs/requirements.md P-6.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.base.errors import ConfigError
from penstock.client.tier import StorePlace, TierPart
from penstock.protocol.own_fields import TierState
from penstock.spark.errors import HistoryUnreadable
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.spark.tier.options import OFF, REQUIRED, TierOptions
from penstock.spark.tier.piece import Leaders, Planned, TierPiece
from penstock.spark.tier.store import call, shared_reader
from penstock.spark.warnings import warn
from penstock.tier.errors import LostObject, LyingObject, ObjectNotFound, StoreError
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.read.reader import TierReader

PIECE_BYTES = 64 << 20
"""Of one task, about: whole runs."""
NOTES_AT_ONCE = 16
"""Small reads that a driver has under way."""
AGAIN_SECONDS = 30.0
"""Before brokers are asked again what is ahead of the tier, or a store that could not be read."""
PAUSE_SECONDS = 0.2
UNKNOWN = "the leader does not know yet, or now, what the tier has"


class _Found(NamedTuple):
    """What can be read from the tier of one partition, up to the end that was asked for."""

    place: StorePlace
    until_ms: int
    start: int
    end: int
    manifest: Manifest
    reader: TierReader


class TierPlanner:
    """Plans for one reader; remembers which partitions are read ahead of the tier."""

    def __init__(
        self, options: TierOptions, *, is_committed_only: bool, timeout_seconds: float
    ) -> None:
        self._options = options
        self._is_committed_only = is_committed_only
        self._timeout_seconds = timeout_seconds
        self._ahead: dict[PartitionName, tuple[int, float]] = {}
        """The end in the tier, and until when nobody asks again about what is behind it."""
        self._silent_until = 0.0

    def plan(
        self, leaders: Leaders, ranges: Iterable[OffsetRange], *, cut: bool = False
    ) -> list[Planned]:
        """Return the ranges with what of them is to be read from the store, in the same order.

        With `cut` long ranges become several, so that more tasks have work; else a range is one,
        but for a beginning that the tier lacks. Raises HistoryUnreadable, ClientError.
        """
        by_name: dict[PartitionName, list[OffsetRange]] = {}
        for one in ranges:
            by_name.setdefault(one.name, []).append(one)
        found: list[Planned] = []
        for name, group in by_name.items():
            found += self._of_partition(leaders, name, group, cut)
        return found

    def _of_partition(
        self, leaders: Leaders, name: PartitionName, group: list[OffsetRange], cut: bool
    ) -> list[Planned]:
        start, end = min(one.start for one in group), max(one.end for one in group)
        if self._options.use == OFF or self._is_known_to_be_ahead(name, start):
            return [Planned(one) for one in group]
        for is_last in (False, True):
            try:
                found = self._find(leaders, OffsetRange(*name, start, end))
                return [part for one in group for part in self._parts(one, found, cut)]
            except LyingObject as error:
                raise HistoryUnreadable(*name, start, str(error)) from error
            except (ConfigError, StoreError, LostObject) as error:
                is_gone = isinstance(error, LostObject | ObjectNotFound)
                if is_gone and not is_last:  # what was told may be old by now
                    continue
                self._can_not(name, start, str(error))
                self._silent_until = time.monotonic() + AGAIN_SECONDS
                break
        return [Planned(one) for one in group]

    def _is_known_to_be_ahead(self, name: PartitionName, start: int) -> bool:
        now = time.monotonic()
        end, until = self._ahead.get(name, (0, 0.0))
        return now < self._silent_until or (now < until and end <= start)

    def _can_not(self, name: PartitionName, offset: int, reason: str) -> None:
        """Say once for a while that brokers are asked instead. Raises HistoryUnreadable."""
        if self._options.use == REQUIRED:
            raise HistoryUnreadable(*name, offset, reason)
        warn(f"history of {name} comes from brokers, and not from the store: {reason}")

    def _find(self, leaders: Leaders, span: OffsetRange) -> _Found | None:
        """Return what the tier has of a range. Raises StoreError, TierError, ConfigError."""
        asked_ms = int(time.time() * 1000)
        part = self._asked(leaders, span)
        end = part.end_offset if part.state is TierState.KNOWN else 0
        self._ahead[span.name] = end, time.monotonic() + AGAIN_SECONDS
        if part.place is None or not part.runs or part.runs[0].first_offset >= span.end:
            return None
        runs = _Runs(leaders, span.name, part)
        start = max(span.start, part.start_offset, runs.all[0].first_offset)
        end = min(span.end, runs.up_to(span.end))
        reader = shared_reader(part.place, self._options)
        call(reader.notes(runs.all[0]))  # a store that can not be read is found out here
        if self._is_committed_only and start < end:
            end = _decided(reader, runs, end)
        if end <= start:
            return None
        until_ms = asked_ms + part.lease_ms
        return _Found(part.place, until_ms, start, end, runs.manifest(), reader)

    def _asked(self, leaders: Leaders, span: OffsetRange) -> TierPart:
        """Ask what the tier has; wait for a leader that does not know it, if it must be known."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            part = leaders.tier_part(span.name, span.start)
            if part.state is not TierState.UNKNOWN:
                return part
            if self._options.use != REQUIRED or time.monotonic() > deadline:
                self._can_not(span.name, span.start, UNKNOWN)
                return part
            time.sleep(PAUSE_SECONDS)

    def _parts(self, wanted: OffsetRange, found: _Found | None, cut: bool) -> Iterator[Planned]:
        """Yield the parts of a range, each with what of it is in the tier."""
        if found is None or min(wanted.end, found.end) <= max(wanted.start, found.start):
            yield Planned(wanted)
            return
        start, end = max(wanted.start, found.start), min(wanted.end, found.end)
        if wanted.start < start:
            yield Planned(wanted._replace(end=start))
        if not cut:
            (piece,) = self._pieces(found, [(start, end)])
            yield Planned(wanted._replace(start=start), piece)
            return
        edges = [*pairwise(_edges(found.manifest, start, end))]
        for (low, high), piece in zip(edges, self._pieces(found, edges), strict=True):
            yield Planned(wanted._replace(start=low, end=high), piece)
        if end < wanted.end:
            yield Planned(wanted._replace(start=end))

    def _pieces(self, found: _Found, edges: Sequence[tuple[int, int]]) -> list[TierPiece]:
        """Return the pieces between edges, each with the runs that it needs."""
        lasts = [found.manifest.run_at(high - 1) for _, high in edges]
        if self._is_committed_only:
            lasts = call(_deciding(found, edges))
        return [
            TierPiece(found.place, found.until_ms, high, _between(found.manifest, low, last))
            for (low, high), last in zip(edges, lasts, strict=True)
        ]


class _Runs:
    """The runs of a partition, page by page as they are needed."""

    def __init__(self, leaders: Leaders, name: PartitionName, first: TierPart) -> None:
        self._leaders, self._name = leaders, name
        self._end = first.end_offset
        self.all = list(first.runs)

    def manifest(self) -> Manifest:
        first, end = self.all[0].first_offset, self.all[-1].end_offset
        return Manifest(Snapshot(0, first, end, tuple(self.all)))

    def up_to(self, offset: int) -> int:
        """Have the runs up to an offset; return where the last one ends."""
        while self.all[-1].end_offset < offset and self.more():
            pass
        return self.all[-1].end_offset

    def more(self) -> bool:
        """Have the next ones; False: there are none, or they do not follow those any more."""
        last = self.all[-1]
        if last.end_offset >= self._end:
            return False
        part = self._leaders.tier_part(self._name, last.end_offset)
        if not part.runs or part.runs[0].entry.topic_partition != last.entry.topic_partition:
            return False
        # What is known of may be merged with what follows meanwhile: one run is in its place.
        first = part.runs[0].first_offset
        kept = [run for run in self.all if run.end_offset <= first]
        follows = kept[-1].end_offset == first if kept else first == self.all[0].first_offset
        if follows:
            self.all = [*kept, *part.runs]
        return follows


def _decided(reader: TierReader, runs: _Runs, end: int) -> int:
    """Return up to where the tier decides all transactions, at most `end`."""
    while True:
        decided, _ = call(reader.decided(runs.manifest(), end - 1, end))
        if decided >= end or not runs.more():
            return decided


async def _deciding(found: _Found, edges: Sequence[tuple[int, int]]) -> list[Run | None]:
    """Return for each piece the run by which all of it is decided."""
    room = asyncio.Semaphore(NOTES_AT_ONCE)

    async def one(end: int) -> Run | None:
        async with room:
            return (await found.reader.decided(found.manifest, end - 1, end))[1]

    return await asyncio.gather(*(one(high) for _, high in edges))


def _between(manifest: Manifest, offset: int, last: Run | None) -> tuple[Run, ...]:
    """Return the runs from an offset on up to the last one that is needed."""
    assert last is not None, "a piece behind what is decided"
    found: list[Run] = []
    for run in manifest.runs_from(offset):
        found.append(run)
        if run.first_offset >= last.first_offset:
            break
    return tuple(found)


def _edges(manifest: Manifest, start: int, end: int) -> list[int]:
    """Return where pieces of about PIECE_BYTES begin and end, from `start` to `end`."""
    edges, size = [start], 0
    for run in manifest.runs_from(start):
        size += run.entry.batch_bytes
        if run.end_offset >= end:
            break
        if size >= PIECE_BYTES:
            edges.append(run.end_offset)
            size = 0
    return [*edges, end]
