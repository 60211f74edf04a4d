"""Reads a piece of the tier from its store, in a task: no broker has a part in it.

    windows of 4 MiB, two on their way ─► checked ─► with what was aborted in them ─► decoded

What the runs of a piece say is the root of trust (tier/read/reader.py): bytes that do not agree are
read once more, and then refused by the object's name. When the lease is over, or an object is gone,
the leader is asked again, and reading goes on with what it tells; what the tier does not have any
more is read from brokers, which tell what is lost.

Source: docs/adr/0154; docs/requirements.md P-6.
"""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import NamedTuple

from penstock.base.errors import ConfigError
from penstock.record.batch import read_header
from penstock.record.committed import Aborted
from penstock.spark.errors import HistoryUnreadable
from penstock.spark.ranges import OffsetRange
from penstock.spark.tier.options import REQUIRED, TierOptions
from penstock.spark.tier.piece import Leaders, Planned, TierPiece
from penstock.spark.tier.plan import TierPlanner
from penstock.spark.tier.store import begin, call, shared_reader
from penstock.spark.warnings import warn
from penstock.tier.errors import LostObject, LyingObject, NotInTier, StoreError
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.read.reader import TierReader

WINDOWS_AHEAD = 2
PAUSE_SECONDS = 0.5
"""Between two tries to read a store that must be read."""


class TierRun(NamedTuple):
    """Whole batches; records in [offset, end) are wanted, and none of what was aborted."""

    offset: int
    end: int
    data: memoryview
    aborted: tuple[Aborted, ...] = ()


Span = tuple[Run, tuple[int, int], int]
"""A run, the first and the last of its blocks, and where the offsets end that are wanted."""


class LeaseOver(Exception):
    """What was planned may be gone from now on."""


class History:
    """What a task reads from the store."""

    def __init__(self, leaders: Leaders, options: TierOptions, *, is_committed_only: bool) -> None:
        self._leaders, self._options = leaders, options
        self._is_committed_only = is_committed_only

    def runs(self, planned: Planned) -> Iterator[TierRun]:
        """Yield what the store has of a range, in order, from its start on without a gap.

        It ends where brokers are to be asked for the rest. Raises HistoryUnreadable, ClientError.
        """
        rest, piece = planned
        deadline = time.monotonic() + self._leaders.timeout_seconds
        lost: str | None = None
        while piece is not None and rest.start < min(piece.end, rest.end):
            try:
                for run in self._read(rest, piece):
                    yield run
                    rest, lost = rest._replace(start=run.end), None
                    deadline = time.monotonic() + self._leaders.timeout_seconds
            except LeaseOver:
                piece = self._renewed(rest, piece)
            except LostObject as error:
                if lost == error.name:  # the leader has it still, and the store has not
                    raise HistoryUnreadable(*rest.name, rest.start, str(error)) from error
                lost, piece = error.name, self._renewed(rest, piece)
            except LyingObject as error:
                raise HistoryUnreadable(*rest.name, rest.start, str(error)) from error
            except (StoreError, ConfigError, NotInTier) as error:
                if self._options.use != REQUIRED:
                    warn(f"{rest.name}: history from {rest.start} comes from brokers: {error}")
                    return
                if time.monotonic() > deadline:
                    raise HistoryUnreadable(*rest.name, rest.start, str(error)) from error
                time.sleep(PAUSE_SECONDS)

    def _renewed(self, rest: OffsetRange, old: TierPiece) -> TierPiece | None:
        """Ask again what the tier has from here on; None: brokers are to be asked."""
        seconds = self._leaders.timeout_seconds
        planner = TierPlanner(
            self._options, is_committed_only=self._is_committed_only, timeout_seconds=seconds
        )
        (first, *_) = planner.plan(self._leaders, [rest])
        piece = first.piece
        if piece is not None and piece.topic_id != old.topic_id:
            reason = "the topic was deleted, and created again"
            raise HistoryUnreadable(*rest.name, rest.start, reason)
        return piece

    def _read(self, rest: OffsetRange, piece: TierPiece) -> Iterator[TierRun]:
        """Yield the rest of a piece. Raises LeaseOver, TierError, ConfigError."""
        yield from tier_runs(
            shared_reader(piece.place, self._options),
            piece.manifest(),
            (rest.start, min(piece.end, rest.end)),
            until_ms=piece.until_ms,
            is_committed_only=self._is_committed_only,
        )


def tier_runs(
    reader: TierReader,
    manifest: Manifest,
    offsets: tuple[int, int],
    *,
    until_ms: int | None,
    is_committed_only: bool,
) -> Iterator[TierRun]:
    """Yield what runs have of [start, end), in order and without a gap.

    `until_ms`: no window is begun behind that time, by the wall clock; None: nothing goes. Raises
    LeaseOver, TierError; NotInTier where committed records are wanted that are not decided.
    """
    position, end = offsets
    windows = _Windows(reader, manifest, offsets, until_ms=until_ms, is_committed=is_committed_only)
    try:
        while (found := windows.next()) is not None:
            if found.end > position:
                yield found._replace(offset=position)
                position = found.end
    finally:
        windows.close()
    if position < end:  # offsets without records
        yield TierRun(position, end, memoryview(b""))


class _Windows:
    """The windows of a range in their order, the next ones under way."""

    def __init__(
        self,
        reader: TierReader,
        manifest: Manifest,
        offsets: tuple[int, int],
        *,
        until_ms: int | None,
        is_committed: bool,
    ) -> None:
        self._reader = reader
        self._until_ms = until_ms
        self._manifest = manifest
        self._offsets = offsets
        self._is_committed = is_committed
        self._coming = self._spans()
        self._waiting: deque[Future[TierRun]] = deque()
        self._next: Span | None = None
        self._is_begun = False

    def next(self) -> TierRun | None:
        """Return the next one; None behind the last. Raises LeaseOver, TierError."""
        is_over = self._fill()
        if not self._waiting:
            if is_over:
                raise LeaseOver
            return None
        found = self._waiting.popleft().result()
        self._fill()
        return found

    def close(self) -> None:
        """Give up what is under way."""
        for one in self._waiting:
            one.cancel()

    def _fill(self) -> bool:
        """Begin windows; return whether none may be begun any more. One always may."""
        while len(self._waiting) < WINDOWS_AHEAD:
            self._next = self._next or next(self._coming, None)
            if self._next is None:
                return False
            if self._is_begun and self._is_late():
                return True
            self._waiting.append(begin(self._window(*self._next)))
            self._next, self._is_begun = None, True
        return False

    def _is_late(self) -> bool:
        return self._until_ms is not None and time.time() * 1000 > self._until_ms

    def _spans(self) -> Iterator[Span]:
        start, end = self._offsets
        for run in self._manifest.runs_from(start):
            if run.first_offset >= end:
                return
            spans = call(self._reader.windows(run, max(start, run.first_offset), end))
            for span in spans:
                yield run, span, min(run.end_offset, end)

    async def _window(self, run: Run, span: tuple[int, int], end: int) -> TierRun:
        start = max(self._offsets[0], run.first_offset)
        found = await self._reader.window(run, span, start)
        if not found.batches:
            return TierRun(start, start, memoryview(b""))
        start = max(start, read_header(found.batches[0]).base_offset)
        end = min(end, found.next_offset)
        aborted: list[tuple[int, int]] | None = []
        if self._is_committed:
            aborted = await self._reader.aborted(self._manifest, start, end)
        if aborted is None:
            raise NotInTier(run.entry.topic_partition, end)
        data = found.batches[0] if len(found.batches) == 1 else b"".join(found.batches)
        gone = tuple(Aborted(first, producer_id) for producer_id, first in aborted)
        return TierRun(start, end, memoryview(data), gone)
