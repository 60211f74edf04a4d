"""`format("penstock")`: the data source class, and its batch and stream readers.

Spark pickles readers and partitions for worker processes; readers therefore hold only options and
ranges, and open connections where they run. The stream reader runs in one process per query on the
driver and keeps its connection.

Source: PySpark 4.2 Python data source API; names and rules of Spark's Kafka source.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.access.rules import AclOperation
from penstock.spark.broker_access import BrokerAccess, shared_access
from penstock.spark.options import READ_COMMITTED, SourceOptions, sink_options, source_options
from penstock.spark.planning import batch_ranges, lost, starting_offsets, subscribed, task_ranges
from penstock.spark.ranges import (
    OffsetJson,
    OffsetRange,
    Offsets,
    admit,
    offsets_from_json,
    offsets_to_json,
    ranges_between,
)
from penstock.spark.reading import read_range, warn_of_corrupt
from penstock.spark.schema import checked_columns, source_schema
from penstock.spark.security import READS, refusals_told
from penstock.spark.tier.piece import Planned
from penstock.spark.tier.plan import TierPlanner
from penstock.spark.tier.reading import History


class PenstockDataSource(DataSource):
    """Topics as tables and streams. Options: docs/operations/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        headers = str(self.options.get("includeHeaders", "false")).lower() == "true"
        return source_schema(include_headers=headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options, streaming=False)
        return BatchReader(options, checked_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = source_options(self.options, streaming=True)
        return StreamReader(options, checked_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import BatchWriter  # noqa: PLC0415  readers do not need it

        return BatchWriter(sink_options(self.options, streaming=False), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink import StreamWriter  # noqa: PLC0415

        return StreamWriter(sink_options(self.options, streaming=True), schema)


def _access(options: SourceOptions) -> BrokerAccess:
    return BrokerAccess(
        options.bootstrap,
        options.broker_timeout_seconds,
        is_committed_only=options.isolation == READ_COMMITTED,
        security=options.security.load(),
    )


def _planner(options: SourceOptions) -> TierPlanner:
    return TierPlanner(
        options.tier,
        is_committed_only=options.isolation == READ_COMMITTED,
        timeout_seconds=options.broker_timeout_seconds,
    )


class RangePartition(InputPartition):
    """The work of one task."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned

    @property
    def wanted(self) -> OffsetRange:
        return self.planned.wanted


class _RangeReader:
    """The part of both readers that runs in a task."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options, self.columns = options, columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return  # Spark makes an empty partition of its own if there are no ranges
        with refusals_told(self.options.security, READS):
            yield from self._rows(partition)

    def _rows(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        options = self.options
        is_committed_only = options.isolation == READ_COMMITTED
        access = shared_access(
            options.bootstrap,
            options.broker_timeout_seconds,
            options.security,
            is_committed_only=is_committed_only,
        )
        history = History(access, options.tier, is_committed_only=is_committed_only)
        yield from read_range(
            access,
            partition.wanted,
            self.columns,
            fail_on_data_loss=options.fail_on_data_loss,
            on_corrupt=warn_of_corrupt if options.skip_corrupt else None,
            history=history.runs(partition.planned),
        )


class BatchReader(_RangeReader, DataSourceReader):
    """Reads the records that are there when Spark plans.

    It takes no filters: Spark 4.2 plans a frame once, and would read what the filters of one query
    have left in every other query of the frame as well
    (`test_queries_of_one_frame_do_not_filter_each_other`, ADR 0200).
    """

    def partitions(self) -> list[InputPartition]:
        options = self.options
        with refusals_told(options.security, READS), _access(options) as access:
            ranges = batch_ranges(access, options)
            access.check_permitted(sorted({part.topic for part in ranges}), AclOperation.READ)
            planned = _planner(options).plan(access, task_ranges(ranges, options), cut=True)
        return [RangePartition(part) for part in planned]


class StreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new records in batches, whose ranges are stored in the query's checkpoint."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._access: BrokerAccess | None = None
        self._planner = _planner(options)
        self._target: Offsets | None = None
        self._newest: Offsets = {}
        self._last_batch = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        """Return the options alone: a connection can not be pickled, and tasks do not need it."""
        return {"options": self.options, "columns": self.columns}

    def initialOffset(self) -> OffsetJson:
        """Return the starting offsets. Called at every start, even if there is a checkpoint."""
        with self._told():
            access = self._brokers()
            names = subscribed(access, self.options)
            access.check_permitted(sorted({name.topic for name in names}), AclOperation.READ)
            return offsets_to_json(starting_offsets(access, names, self.options))

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.records_per_trigger_max
        return ReadMaxRows(limit) if limit is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with self._told():
            self._target = self._latest()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return the end of the next batch; `start` if there is nothing to read yet."""
        with self._told():
            return self._end_of_next(start, limit)

    def _end_of_next(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        begin = offsets_from_json(start, option="checkpoint")
        newest = self._latest()
        self._newest = newest
        target = newest if self._target is None else self._target
        begin = self._with_new_partitions(begin, target)
        self._check_not_behind(begin, newest)
        if self._waits_for_more(begin, target):
            return start
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = admit(begin, target, records_max)
        if ranges_between(begin, end):
            self._last_batch = time.monotonic()
        return offsets_to_json(begin | end)

    def reportLatestOffset(self) -> OffsetJson:
        """Return the newest offsets; progress shows them as latestOffset (see lag.py)."""
        with self._told():
            return offsets_to_json(self._newest or self._latest())

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        ends = offsets_from_json(end, option="checkpoint")
        with self._told():
            begin = self._with_new_partitions(offsets_from_json(start, option="checkpoint"), ends)
            ranges = task_ranges(ranges_between(begin, ends), self.options)
            planned = self._planner.plan(self._brokers(), ranges, cut=True)
        return [RangePartition(part) for part in planned]

    def commit(self, end: OffsetJson) -> None:
        """Do nothing: only the checkpoint records the progress of a query."""

    def stop(self) -> None:
        if self._access is not None:
            self._access.close()
            self._access = None

    def _told(self) -> AbstractContextManager[None]:
        return refusals_told(self.options.security, READS)

    def _brokers(self) -> BrokerAccess:
        if self._access is None:
            self._access = _access(self.options)
        return self._access

    def _latest(self) -> Offsets:
        access = self._brokers()
        return access.latest(subscribed(access, self.options))

    def _with_new_partitions(self, begin: Offsets, target: Offsets) -> Offsets:
        """Add partitions created after the query began; they are read from their first record."""
        new = [name for name in target if name not in begin]
        return begin | self._brokers().earliest(new) if new else begin

    def _check_not_behind(self, begin: Offsets, newest: Offsets) -> None:
        ahead = [name for name, offset in begin.items() if newest.get(name, -1) < offset]
        if not ahead:
            return
        # a query that has read uncommitted records may be ahead of what is decided, and waits
        high = self._brokers().high_watermarks([name for name in ahead if name in newest])
        for name in ahead:
            if high.get(name, -1) < begin[name]:
                fail = self.options.fail_on_data_loss
                lost(name, wanted=begin[name], found=high.get(name, 0), fail=fail)

    def _waits_for_more(self, begin: Offsets, target: Offsets) -> bool:
        least = self.options.records_per_trigger_min
        if least is None or self._target is not None:
            return False
        waited_ms = (time.monotonic() - self._last_batch) * 1000
        lag = sum(part.length for part in ranges_between(begin, target))
        return lag < least and waited_ms < self.options.trigger_delay_ms_max
