"""Reads one offset range: fetch, decode, hand on.

A range is deterministic: all records of the log in [start, end) and nothing else, however often
it is read, because its end was at or below the high watermark when it was planned. Three things
can go wrong, and each is told apart:
- no broker answers, or the log ends before the range (a broker that is still recovering): the
  client tries again until its time is up;
- the records are gone from the start of the log (retention): DataLost, or a warning and the next
  record that is there;
- the log is shorter than it was: DataLost in any case, since going on would make a hole.
"""

from collections.abc import Iterator

import pyarrow as pa

from penstock.record.read import run_end
from penstock.spark.batches import BatchMaker
from penstock.spark.broker_access import BrokerAccess, OffsetOutOfRange
from penstock.spark.errors import DataLost
from penstock.spark.planning import lost
from penstock.spark.ranges import OffsetRange


def read_range(
    access: BrokerAccess, wanted: OffsetRange, columns: tuple[str, ...], *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the range, in order, in batches of about 1 MiB."""
    maker = BatchMaker(wanted, columns)
    rest = wanted
    while rest.length:
        try:
            for run in access.read(rest):
                yield from maker.batches(run.data, run.offset)
                rest = rest._replace(start=max(rest.start, run_end(run.data, run.offset)))
        except OffsetOutOfRange as error:
            rest = _after_the_gap(access, rest, error, fail=fail_on_data_loss)


def _after_the_gap(
    access: BrokerAccess, rest: OffsetRange, error: OffsetOutOfRange, *, fail: bool
) -> OffsetRange:
    """Return what is left of a range whose start is not in the log. Raises DataLost."""
    first = access.earliest([rest.name])[rest.name]
    if first <= rest.start:
        end = access.latest([rest.name])[rest.name]
        raise DataLost(rest.topic, rest.partition, wanted=rest.start, found=end) from error
    lost(rest.name, wanted=rest.start, found=first, fail=fail)
    return rest._replace(start=min(first, rest.end))
