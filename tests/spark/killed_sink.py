"""A query from topic to topic whose driver dies where it is told, for a process of its own.

    main(BOOTSTRAP, SOURCE, TARGET, DIRECTORY)

The deaths are by batch, in DEATHS; each happens once, and leaves a file in the directory before.
SIGKILL ends the whole driver: this Python, the JVM, and the Python process in which Spark commits.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from harness.waiting import wait_until
from penstock.client.ending import end_transactions
from penstock.spark.exactly_once import ending
from penstock.spark.exactly_once.decisions import Decision, Decisions
from penstock.spark.options import sink_options
from penstock.spark.sink import StreamWriter
from penstock.spark.source import PenstockDataSource

DEATHS = {0: "undecided", 1: "decided", 2: "between", 3: "ended"}
"""At which batch the driver dies, and what it has done last."""
NODE_DEATH = 4
"""The batch between whose decision and commits the node is killed, and started again."""
BATCH_RECORDS = 40
NODE_WANTED, NODE_BACK = "node-is-to-be-killed", "node-is-back"
TASK_FAILED = "task-has-failed"
_DRIVER, _DIRECTORY = "KILLED_SINK_DRIVER", "KILLED_SINK_DIRECTORY"
_WAIT_SECONDS = 300.0


class KilledSource(PenstockDataSource):
    """The format penstock with a sink that dies."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return KilledWriter(sink_options(self.options, streaming=True), schema)


class KilledWriter(StreamWriter):
    """Dies in `commit`, and once in a task."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = super().write(iterator)
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 0 and _is_first(TASK_FAILED):
            raise RuntimeError("the task fails after its rows were acknowledged")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        death = DEATHS.get(batchId)
        if death is None or not _is_first(death):
            _commit_beside_a_dying_node(self, messages, batchId)
            return
        with mock.patch.object(Decisions, "record", _dying_record(death)), _dying_end(death):
            super().commit(messages, batchId)
        assert death == "ended", death
        _die()


def _commit_beside_a_dying_node(
    writer: StreamWriter, messages: list[WriterCommitMessage | None], batch: int
) -> None:
    record = Decisions.record

    def recorded(decisions: Decisions, decision: Decision) -> None:
        record(decisions, decision)
        if batch == NODE_DEATH and _is_first(NODE_WANTED):
            assert wait_until((_directory() / NODE_BACK).exists, _WAIT_SECONDS)

    with mock.patch.object(Decisions, "record", recorded):
        StreamWriter.commit(writer, messages, batch)


def _dying_record(death: str) -> Any:
    record = Decisions.record

    def recorded(decisions: Decisions, decision: Decision) -> None:
        if death == "undecided":
            _die()
        record(decisions, decision)
        if death == "decided":
            _die()

    return recorded


def _dying_end(death: str) -> Any:
    def ended(cluster: Any, transactions: Any, *, is_commit: bool) -> Any:
        if death == "between" and is_commit:
            assert len(transactions) > 1, transactions
            end_transactions(cluster, transactions[:1], is_commit=True)
            _die()
        return end_transactions(cluster, transactions, is_commit=is_commit)

    return mock.patch.object(ending, "end_transactions", ended)


def _directory() -> Path:
    return Path(os.environ[_DIRECTORY])


def _is_first(what: str) -> bool:
    try:
        (_directory() / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _die() -> None:
    """Kill the driver from the process in which it commits, the JVM first."""
    driver = int(os.environ[_DRIVER])
    above = {process.pid: process for process in psutil.Process().parents()}
    family = list(above.values())[: list(above).index(driver) + 1]
    jvm = [process for process in family if "java" in process.name()]
    assert jvm, family
    for process in [*jvm, *family, psutil.Process()]:
        process.send_signal(signal.SIGKILL)


def main(bootstrap: str, source: str, target: str, directory: str) -> None:
    """Copy what is in the source, in batches."""
    os.environ |= {
        _DRIVER: str(os.getpid()),
        _DIRECTORY: directory,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    from pyspark.sql import SparkSession

    from tests.spark.conftest import SETTINGS

    builder = SparkSession.builder.master("local[2,3]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(KilledSource)
    rows = spark.readStream.format("penstock").options(
        bootstrap=bootstrap,
        subscribe=source,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(BATCH_RECORDS),
    )
    query = (
        rows.load()
        .select("value", "partition")
        .writeStream.format("penstock")
        .options(bootstrap=bootstrap, topic=target, brokerTimeout="120s")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
