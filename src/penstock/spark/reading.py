"""Reads one offset range: fetch, decode, yield Arrow batches.

    [start ........ what the tier has ........ | ........ the rest ........ end)
           from the store (tier/reading.py)         from brokers

A range is deterministic: however often it is read, it gives all records of the log in [start, end)
and no others, because its end was at or below the high watermark when it was planned. If only
committed records are read, it was at or below the last stable offset, so that it is decided for
every transaction in the range whether it counts. Errors:
- No broker answers, or the log ends before the range because a broker is still recovering: the
  client retries until its time-out.
- A batch can not be decoded: CorruptRecords, or it is given to `on_corrupt` and left out.
- The first records were deleted (retention): DataLost, or a warning, and reading continues with the
  oldest record that is left.
- The log is shorter than it was: always DataLost, since continuing would leave a gap.
"""

from collections.abc import Callable, Generator, Iterable, Iterator

import pyarrow as pa

from penstock.base.invariant import invariant
from penstock.record.committed import committed_pieces
from penstock.record.errors import UnreadableBatch
from penstock.record.read import run_end
from penstock.spark.batches import BatchMaker
from penstock.spark.broker_access import BrokerAccess, OffsetOutOfRange, Run
from penstock.spark.errors import CorruptRecords, DataLost
from penstock.spark.planning import lost
from penstock.spark.ranges import OffsetRange
from penstock.spark.tier.reading import TierRun
from penstock.spark.warnings import warn

OnCorrupt = Callable[[CorruptRecords], None]


def warn_of_corrupt(found: CorruptRecords) -> None:
    """Warn that the batch is left out."""
    offsets = f"offsets {found.first} to {found.last}"
    warn(f"skipped {found.topic}-{found.partition}, {offsets}: {found.reason}")


def read_range(
    access: BrokerAccess,
    wanted: OffsetRange,
    columns: tuple[str, ...],
    *,
    fail_on_data_loss: bool,
    on_corrupt: OnCorrupt | None = None,
    history: Iterable[TierRun] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the range, in order, in batches of about 1 MiB.

    Those of `history`, which begin with the range, and behind them those that brokers give. Batches
    that can not be decoded are given to `on_corrupt` and left out; without it CorruptRecords is
    raised.
    """
    maker = BatchMaker(wanted, columns)
    rest = yield from _of_history(maker, history, wanted, on_corrupt)
    while rest.length:
        try:
            for run in access.read(rest):
                yield from _readable(maker, run, wanted, on_corrupt)
                rest = rest._replace(start=max(rest.start, run_end(run.data, run.offset)))
        except OffsetOutOfRange as error:
            rest = _after_the_gap(access, rest, error, fail=fail_on_data_loss)


def read_history(
    wanted: OffsetRange,
    columns: tuple[str, ...],
    history: Iterable[TierRun],
    on_corrupt: OnCorrupt | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range of which `history` has everything, as `read_range` does."""
    rest = yield from _of_history(BatchMaker(wanted, columns), history, wanted, on_corrupt)
    invariant(not rest.length, "history ends before its range", rest=rest)


def _of_history(
    maker: BatchMaker,
    history: Iterable[TierRun],
    wanted: OffsetRange,
    on_corrupt: OnCorrupt | None,
) -> Generator[pa.RecordBatch, None, OffsetRange]:
    """Yield what history has of the range; return the rest."""
    rest = wanted
    for part in history:
        run = Run(part.offset, part.data, part.aborted)
        yield from _readable(maker, run, rest._replace(end=part.end), on_corrupt)
        rest = rest._replace(start=part.end)
    return rest


def _readable(
    maker: BatchMaker, run: Run, wanted: OffsetRange, on_corrupt: OnCorrupt | None
) -> Iterator[pa.RecordBatch]:
    """Yield the readable batches of a run; report the offsets of this range in the others."""
    position = run.offset
    while True:
        try:
            for piece in committed_pieces(run.data, run.aborted):
                yield from maker.batches(piece, position, wanted.end)
        except UnreadableBatch as error:
            offsets = max(error.first_offset, position), min(error.last_offset, wanted.end - 1)
            found = CorruptRecords(
                wanted.topic,
                wanted.partition,
                offsets=offsets,
                reason=error.reason,
                batch=error.batch,
            )
            if on_corrupt is None:
                raise found from error
            on_corrupt(found)
            position = error.last_offset + 1
        else:
            return


def _after_the_gap(
    access: BrokerAccess, rest: OffsetRange, error: OffsetOutOfRange, *, fail: bool
) -> OffsetRange:
    """Return the rest of a range whose start is no longer in the log. Raises DataLost."""
    first = access.earliest([rest.name])[rest.name]
    if first <= rest.start:
        end = access.latest([rest.name])[rest.name]
        raise DataLost(rest.topic, rest.partition, wanted=rest.start, found=end) from error
    lost(rest.name, wanted=rest.start, found=first, fail=fail)
    return rest._replace(start=min(first, rest.end))
