"""The landing job: plan a batch, run it as one Spark job, commit, and repeat.

    table's ends + topic's ends -> plan -> tasks write files -> commit(files, new ends) -> ...

Only the table records what has landed (see tables/port.py), so a kill at any point costs no more
than the work of one batch. Dead letters are in a table of their own with its own ends. They are
committed first, so that the main table's ends are never ahead of theirs; after a kill between the
two commits, the next plan leaves out the letters that the dead-letter table already has.
"""

import re
import signal
import sys
import threading
import time
import uuid
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.access.rules import AclOperation
from penstock.base.errors import ConfigError, PlatformError
from penstock.client.errors import NoBrokerReachable, RequestTimedOut, TopicNotFound
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import OptionError, SparkRoomError, SparkUnavailable, TableConflict
from penstock.spark.land.files import FileTarget
from penstock.spark.land.lock import table_lock
from penstock.spark.land.options import LandOptions
from penstock.spark.land.plan import Batch, Planner
from penstock.spark.land.progress import Progress, Summary, show_summary
from penstock.spark.land.schema import choose_shape
from penstock.spark.land.shape import DEAD_SCHEMA
from penstock.spark.land.tables import DataFile, Table, TableSpec, open_table
from penstock.spark.land.task import TaskOrder, Written, land_range
from penstock.spark.security import READS, refusals_told
from penstock.spark.session import check_classic, check_java, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFLICTS_MAX = 5
"""Consecutive commits that may conflict with another writer (such as a compaction)."""
FIRST_CONTACT_SECONDS = 1.5
"""A wrong address should be reported within three seconds."""
SLICES_PER_CORE_MAX = 4
SLICE_RECORDS_MIN = 10_000
SLICE_RANGES_MAX = 4
"""Short ranges share a task: starting a task takes 30 ms, landing a short range 5 ms."""


def run(options: LandOptions) -> int:
    """Run a job from start to end. Returns the exit code; errors are one line on stderr."""
    try:
        check_classic(options.master, options.spark_conf)
        check_java()
        with refusals_told(options.security, READS):
            _say_who_is_silent(options)
            with _access(options, options.broker_timeout_seconds) as access:
                _look_for_topic(options, access)  # before any directory is created
                with table_lock(options.to) as own:
                    return _run_locked(options, access, own / "spark.log")
    except (OptionError, ConfigError, SparkUnavailable) as error:
        return _fail(error, 2)
    except PlatformError as error:
        return _fail(error, 1)


def _access(options: LandOptions, seconds: float) -> BrokerAccess:
    login = options.security.load()
    return BrokerAccess(options.bootstrap, seconds, is_committed_only=True, security=login)


def _look_for_topic(options: LandOptions, access: BrokerAccess) -> None:
    """Raise SparkRoomError if the topic does not exist when the job starts, or may not be read."""
    try:
        access.partitions(options.topic)
        access.check_permitted([options.topic], AclOperation.READ)
    except TopicNotFound as error:
        raise SparkRoomError(f"{error}: penstock topic create {error.topic}") from error


def _say_who_is_silent(options: LandOptions) -> None:
    """Warn early that no broker answers; the job keeps trying for its whole time-out."""
    patience = options.broker_timeout_seconds
    if patience <= FIRST_CONTACT_SECONDS:
        return
    try:
        with _access(options, FIRST_CONTACT_SECONDS) as access:
            access.topics()
    except (NoBrokerReachable, RequestTimedOut) as error:
        sys.stderr.write(f"penstock land: trying for {patience:g} s: {error}\n")
        sys.stderr.flush()


def _fail(error: Exception, code: int) -> int:
    sys.stderr.write(f"penstock land: {error}\n")
    return code


def _run_locked(options: LandOptions, access: BrokerAccess, log: Path) -> int:
    if options.progress:
        sys.stderr.write(f"penstock land: starting Spark ({options.master})\n")
        sys.stderr.flush()
    name = f"penstock land {options.topic}"
    with spark_session(name, options.master, options.spark_conf, log) as spark:
        summary = Summary(topic=options.topic, table=str(options.to), format=options.format)
        with (
            Progress(summary, show=options.progress) as progress,
            StopSignal() as stop,
            closing(Landing(options, spark, access, log=log)) as landing,
        ):
            landing.run(summary, progress, stop)
        show_summary(summary, options.output)
    return 0


class Landing:
    """The loop of one job."""

    def __init__(
        self, options: LandOptions, spark: "SparkSession", access: BrokerAccess, *, log: Path
    ) -> None:
        self._options, self._spark, self._log = options, spark, log
        self._shape = choose_shape(options, access)
        self._topic_id = access.topic_id(options.topic)
        self._table, self._dead = self._open()
        self._planner = Planner(options, access)

    def _cores(self) -> int:
        """Return how many tasks run at once: a cluster's executors come and go during the job."""
        return int(self._spark.sparkContext.defaultParallelism)

    def _open(self) -> tuple[Table, Table | None]:
        options, shape = self._options, self._shape
        main = TableSpec(
            path=options.to,
            topic=options.topic,
            topic_id=self._topic_id,
            schema=shape.schema,
            partition_by=options.partition_by,
            timestamp_column=shape.timestamp_column,
            offset_column=shape.offset_column,
        )
        table = open_table(options.format, main)
        if shape.kind == "raw" and not options.skip_corrupt:
            return table, None
        try:
            return table, open_table(options.format, self._dead_spec())
        except BaseException:
            table.close()
            raise

    def close(self) -> None:
        """Close the tables."""
        self._table.close()
        if self._dead is not None:
            self._dead.close()

    def _dead_spec(self) -> TableSpec:
        return TableSpec(
            path=self._options.dead_letter_path,
            topic=self._options.topic,
            topic_id=self._topic_id,
            schema=DEAD_SCHEMA,
            partition_by="none",
            timestamp_column="_timestamp",
            offset_column="_offset",
        )

    def run(self, summary: Summary, progress: Progress, stop: "StopSignal") -> None:
        """Land batches until nothing is left to do, or until `stop` is set."""
        conflicts = 0
        while not stop.is_set():
            started = time.monotonic()
            batch = self._planner.plan(self._table, self._dead, parallelism=self._cores())
            summary.lag = batch.lag + sum(p.wanted.length for p in batch.ranges)
            progress.update("landing" if batch.ranges else "waiting for records")
            if batch.ranges:
                conflicts = self._attempt(batch, summary, stop, conflicts)
                progress.update("committed" if conflicts == 0 else "planning again")
            elif not self._options.stream or self._options.until_caught_up:
                return
            if not batch.lag and not conflicts:
                stop.wait(self._options.trigger_seconds - (time.monotonic() - started))

    def _attempt(self, batch: Batch, summary: Summary, stop: "StopSignal", conflicts: int) -> int:
        """Land a batch; return how many consecutive attempts have conflicted."""
        try:
            self._land(batch, summary)
        except TableConflict:
            if conflicts >= CONFLICTS_MAX:
                raise
            self.close()
            self._table, self._dead = self._open()
            return conflicts + 1
        except SparkRoomError:
            # The stop signal may have reached Spark's processes too, as service managers send it
            # to all. The table is unchanged, and the next run lands the batch.
            if not stop.is_set():
                raise
        return 0

    def _land(self, batch: Batch, summary: Summary) -> None:
        written = self._run_tasks(batch)
        dead_files = [file for task in written for file in task.dead_files]
        if dead_files:
            assert self._dead is not None, "dead letters of a raw landing"
            self._dead.commit(dead_files, batch.ends)
        files: list[DataFile] = [file for task in written for file in task.files]
        self._table.commit(files, batch.ends)
        summary.rows += sum(task.rows for task in written)
        summary.dead_letters += sum(task.dead_rows for task in written)
        summary.batches += 1
        summary.lag = batch.lag
        summary.ends |= {str(partition): end for partition, end in batch.ends.items()}

    def _run_tasks(self, batch: Batch) -> list[Written]:
        attempt = uuid.uuid4().hex[:12]
        order = self._order(attempt)
        ranges = batch.ranges
        records = sum(part.wanted.length for part in ranges)
        wanted = max(1, records // SLICE_RECORDS_MIN, len(ranges) // SLICE_RANGES_MAX)
        slices = min(wanted, len(ranges), self._cores() * SLICES_PER_CORE_MAX)
        work = self._spark.sparkContext.parallelize(ranges, slices).map(land_range(order))
        try:
            return work.collect()
        except Exception as error:
            raise SparkRoomError(f"{_cause(error)} (Spark's own words: {self._log})") from error

    def _order(self, attempt: str) -> TaskOrder:
        options, shape = self._options, self._shape
        dead = self._dead if self._dead is not None else self._table
        return TaskOrder(
            bootstrap=options.bootstrap,
            broker_timeout_seconds=options.broker_timeout_seconds,
            security=options.security,
            tier=options.tier,
            fail_on_data_loss=options.fail_on_data_loss,
            skip_corrupt=options.skip_corrupt,
            shape=shape,
            main=FileTarget(
                self._table.layout(attempt),
                options.partition_by,
                shape.timestamp_column,
                shape.offset_column,
            ),
            dead=FileTarget(dead.layout(attempt), "none", "_timestamp", "_offset"),
        )


def _cause(error: Exception) -> str:
    """Return the line with the cause from a JVM stack trace."""
    lines = str(error).splitlines()
    ours = [line.strip() for line in lines if line.strip().startswith("penstock.") and ": " in line]
    if ours:
        return ours[-1].split(": ", 1)[1]
    named = [
        line.strip() for line in lines if re.match(r"^\w*(Error|Exception)\b.*: ", line.strip())
    ]
    return (named or lines or [type(error).__name__])[-1]


class StopSignal:
    """SIGINT or SIGTERM ends the job after the present batch; a second one ends it at once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._event.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for the signal, at most `seconds`."""
        if seconds > 0:
            self._event.wait(seconds)
