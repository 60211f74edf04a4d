"""Plans one batch: from the ends in the table to the end of the topic, shared over tasks.

Ranges begin at the table's ends. A partition that the table does not know begins where the option
says; the resolved offset is kept for the life of the job, so that `latest` means the end of the
topic when the job started, and not when a later batch was planned.
"""

from typing import NamedTuple

from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import DataLost, TableMismatch
from penstock.spark.land.options import LandOptions
from penstock.spark.land.tables import Table
from penstock.spark.land.task import TaskRange
from penstock.spark.planning import lost
from penstock.spark.ranges import (
    OffsetRange,
    Offsets,
    PartitionName,
    admit,
    ranges_between,
    split_ranges,
)
from penstock.spark.tier.plan import TierPlanner

RANGE_RECORDS_MIN = 50_000
"""Ranges are not cut into shorter ones for more parallelism: files would become too small."""


class Batch(NamedTuple):
    """The work of one batch."""

    ranges: list[TaskRange]
    ends: dict[int, int]
    """Partition -> offset after the batch, for partitions with records in it."""
    lag: int
    """Records left in the topic after this batch."""


class Planner:
    """Plans batches of one topic."""

    def __init__(self, options: LandOptions, access: BrokerAccess) -> None:
        self._options, self._access = options, access
        self._topic_id = access.topic_id(options.topic)
        self._chosen: Offsets = {}
        self._target: Offsets | None = None if options.stream else self._high()
        self._tier = TierPlanner(
            options.tier,
            is_committed_only=True,
            timeout_seconds=options.broker_timeout_seconds,
        )

    def _names(self) -> list[PartitionName]:
        topic = self._options.topic
        return [PartitionName(topic, number) for number in self._access.partitions(topic)]

    def _high(self) -> Offsets:
        return self._access.latest(self._names())

    def plan(self, table: Table, dead: Table | None, *, parallelism: int) -> Batch:
        """Return the next batch; one without ranges if there is nothing to land.

        Long ranges are cut, so that up to `parallelism` tasks have work. Raises DataLost, and
        TableMismatch if the topic was deleted and created again while the job was running.
        """
        if self._access.topic_id(self._options.topic) != self._topic_id:
            raise TableMismatch(f"topic {self._options.topic} was deleted and created again")
        names = self._names()
        high = self._access.latest(names)
        target = high if self._target is None else self._target
        start = self._starts(names, table.ends([name.partition for name in names]), high)
        end = admit(start, target, self._options.max_records_per_batch)
        ranges = ranges_between(start, end)
        dead_ends = dead.ends([part.partition for part in ranges]) if dead is not None else {}
        lag = sum(part.length for part in ranges_between(end, target))
        return Batch(
            ranges=[
                TaskRange(part, dead_ends.get(part.wanted.partition, 0))
                for part in self._tier.plan(self._access, _cut(ranges, parallelism))
            ],
            ends={part.partition: part.end for part in ranges},
            lag=lag,
        )

    def _starts(self, names: list[PartitionName], ends: dict[int, int], high: Offsets) -> Offsets:
        low = self._access.earliest(names)
        is_first = not self._chosen
        starts: Offsets = {}
        for name in names:
            landed = ends.get(name.partition)
            if name not in self._chosen:
                at_end = is_first and self._options.starting == "latest"
                self._chosen[name] = high[name] if at_end else low[name]
            starts[name] = self._chosen[name] if landed is None else landed
            self._check(name, starts[name], low[name], high[name])
            starts[name] = max(starts[name], low[name])
        return starts

    def _check(self, name: PartitionName, start: int, low: int, high: int) -> None:
        if start > high:
            raise DataLost(name.topic, name.partition, wanted=start, found=high)
        if start < low:
            lost(name, wanted=start, found=low, fail=self._options.fail_on_data_loss)


def _cut(ranges: list[OffsetRange], parallelism: int) -> list[OffsetRange]:
    total = sum(part.length for part in ranges)
    return split_ranges(ranges, ranges_min=min(parallelism, total // RANGE_RECORDS_MIN))
