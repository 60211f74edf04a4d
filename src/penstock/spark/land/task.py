"""One Spark task of a landing: write one offset range to files, which are not visible yet.

It runs in a worker process and gets only its order and the range. It fetches, decodes, converts and
writes Parquet in this one process, so that no row passes through the JVM, which would cost about as
much as encoding the row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.spark.broker_access import BrokerAccess, shared_access
from penstock.spark.errors import CorruptRecords
from penstock.spark.land.files import FileTarget, RangeWriter
from penstock.spark.land.shape import Shape, Shaper, corrupt_letter, drop_before
from penstock.spark.land.tables.port import DataFile
from penstock.spark.ranges import OffsetRange
from penstock.spark.reading import read_range
from penstock.spark.security import READS, SecurityOptions, refusals_told
from penstock.spark.tier.options import TierOptions
from penstock.spark.tier.piece import Planned
from penstock.spark.tier.reading import History


class TaskRange(NamedTuple):
    """One task's range, and the first offset that the dead-letter table does not have yet."""

    planned: Planned
    dead_from: int

    @property
    def wanted(self) -> OffsetRange:
        """The offsets of it."""
        return self.planned.wanted


class Written(NamedTuple):
    """The files and counts of one range."""

    files: list[DataFile]
    dead_files: list[DataFile]
    rows: int
    dead_rows: int
    source_bytes: int
    """Arrow bytes of the columns read; a measure of work, not of the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """The settings of all tasks of a batch."""

    bootstrap: str
    broker_timeout_seconds: float
    security: SecurityOptions
    tier: TierOptions
    fail_on_data_loss: bool
    skip_corrupt: bool
    shape: Shape
    main: FileTarget
    dead: FileTarget


def land_range(order: TaskOrder) -> Callable[[TaskRange], Written]:
    """Return the function that Spark maps over the ranges of a batch."""

    def land(part: TaskRange) -> Written:
        with refusals_told(order.security, READS):
            access = shared_access(
                order.bootstrap,
                order.broker_timeout_seconds,
                order.security,
                is_committed_only=True,
            )
            return _land(order, part, access)

    return land


def _land(order: TaskOrder, part: TaskRange, access: BrokerAccess) -> Written:
    shaper = Shaper(order.shape)
    main = RangeWriter(order.main, part.wanted)
    dead = RangeWriter(order.dead, part.wanted)
    size = 0

    def bury(found: CorruptRecords) -> None:
        dead.write(drop_before(corrupt_letter(found), order.dead.offset_column, part.dead_from))

    history = History(access, order.tier, is_committed_only=True)
    for batch in read_range(
        access,
        part.wanted,
        order.shape.source_columns,
        fail_on_data_loss=order.fail_on_data_loss,
        on_corrupt=bury if order.skip_corrupt else None,
        history=history.runs(part.planned),
    ):
        size += batch.nbytes
        rows, letters = shaper.shape(batch)
        main.write(rows)
        if letters is not None:
            dead.write(drop_before(letters, order.dead.offset_column, part.dead_from))
    files, dead_files = main.finish(), dead.finish()
    return Written(
        files,
        dead_files,
        sum(file.rows for file in files),
        sum(file.rows for file in dead_files),
        size,
    )
