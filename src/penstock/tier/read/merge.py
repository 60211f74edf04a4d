"""Builds the object that takes the place of several runs of the store, out of what these have.

    run ─► summary ─► windows of its blocks, checked ─► batches, as they are ─► the new extent
               └─► epochs, aborted transactions, what is decided ─► its notes

Every byte is checked as for a reader (reader.py), and that batches follow each other. A run that
was cut is taken up to there: what it tells of transactions behind that is left out, and nothing
counts as decided by it. The new run has the same records under the same offsets, so whoever reads
does not notice; what is wrong with an old one is refused by its name, and nothing takes its place.

Source: docs/adr/0176; of a log it is storage/second_level/objects.py.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from penstock.base.ports import Buffer
from penstock.extents.layout import NOT_CLEANED, Aborted, Notes
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import read_header
from penstock.tier.copies.effects import MergePlan, Replacement
from penstock.tier.copies.source import Image
from penstock.tier.envelope import ENVELOPE_BYTES
from penstock.tier.errors import LyingObject
from penstock.tier.metadata.manifest import Run
from penstock.tier.read.reader import TierReader, Work, decided_by

Pace = Callable[[int], Awaitable[None]]
"""Waits until so many bytes may be read or written."""


async def build_merged(
    reader: TierReader,
    plan: MergePlan,
    identity: tuple[bytes, int],
    *,
    pace: Pace,
    work: Work,
) -> Image:
    """Return the file of an object. All of it is in memory, and what was read with it.

    `identity`: cluster and replica set; `pace` is told of what was read. Raises LostObject,
    LyingObject, StoreError.
    """
    chunks: list[Buffer] = []
    writer = ExtentFileWriter(chunks.extend, *identity)
    epochs = []
    for one in plan:
        merged = _Merged(one, writer)
        for run in one.runs:
            for span in await reader.windows(run, run.first_offset, run.end_offset):
                found = await reader.window(run, span, run.first_offset)
                await work(partial(merged.add, run, found.batches))
                await pace(sum(map(len, found.batches)))
            merged.end_run(run, await reader.notes(run))
        epochs.append(merged.finish())
    return Image(chunks, tuple(writer.finish()), tuple(epochs))


class _Merged:
    """The run in place of others, as it is written."""

    def __init__(self, one: Replacement, writer: ExtentFileWriter) -> None:
        key, first, _ = one.part
        self._writer = writer
        self._end = first
        self._epochs: list[tuple[int, int]] = []
        self._run_epochs: list[tuple[int, int]] = []
        """Of the run whose batches come."""
        self._aborted: tuple[list[int], ...] = ([], [], [], [])
        self._decided_end = 0
        writer.begin(key, one.generation, first_offset=first)

    def add(self, run: Run, batches: list[memoryview]) -> None:
        """Write batches of a run. Raises LyingObject: they do not follow those before."""
        for batch in batches:
            header = read_header(batch)
            if header.base_offset != self._end:
                raise _wrong(run, f"a batch at {header.base_offset}, and not at {self._end}")
            self._writer.add(batch)
            if not self._run_epochs or self._run_epochs[-1][0] != header.leader_epoch:
                self._run_epochs.append((header.leader_epoch, header.base_offset))
            self._end = header.last_offset + 1

    def end_run(self, run: Run, notes: Notes) -> None:
        """Take over what the markers of a run have decided, once all of its batches are there."""
        if self._end != run.end_offset:
            raise _wrong(run, f"batches end at {self._end}, and not at {run.end_offset}")
        if tuple(self._run_epochs) != run.epochs:
            raise _wrong(run, f"batches of epochs {self._run_epochs}, and not {run.epochs}")
        goes_on = self._epochs and self._epochs[-1][0] == run.epochs[0][0]
        self._epochs += run.epochs[1:] if goes_on else run.epochs
        self._run_epochs = []
        self._decided_end = max(self._decided_end, decided_by(run, notes))
        for row in zip(*notes.aborted, strict=True):
            if row[2] < run.end_offset:
                for column, value in zip(self._aborted, row, strict=True):
                    column.append(value)

    def finish(self) -> tuple[tuple[int, int], ...]:
        """End it; return its epochs."""
        self._writer.end(Aborted(*self._aborted), self._decided_end, newest_horizon_ms=NOT_CLEANED)
        return tuple(self._epochs)


def _wrong(run: Run, reason: str) -> LyingObject:
    return LyingObject(str(run.name), ENVELOPE_BYTES + run.entry.extent_at, reason)
