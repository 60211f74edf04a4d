"""Does Spark read a topic as fast as a file, and land it as fast as it copies one?

One session, one topic of 1 KiB values (random), 2 partitions. Each round
asks all cases in turn, and the ratio counts: reading the topic against reading the same rows from
Parquet, landing against Spark's copy of that Parquet. CPU seconds are those of JVM and workers.
"""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks import RESULTS
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from harness.results import median, publish
from harness.workload import create_topic
from penstock.spark import register
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.land import LandOptions
from penstock.spark.land.job import Landing, StopSignal
from penstock.spark.land.options import TableFormat
from penstock.spark.land.progress import Progress, Summary

GOAL = "read >= 150 MB/s per core and >= 1 x Parquet read; landing >= 0.9 x Parquet copy"
VALUE_BYTES = 1024
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.parquet.compression.codec": "snappy",
}
Case = Callable[[], None]


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    if shutil.which("java") is None:
        print("spark_read_land left out: no Java here")
        return
    records, rounds = (200_000, 2) if quick else (1_000_000, 4)
    with (
        temporary_node(PAGE_CACHE) as node,
        tempfile.TemporaryDirectory() as scratch,
    ):
        _fill(node.bootstrap, records)
        publish(
            RESULTS,
            "spark_read_land",
            _measure(node.bootstrap, Path(scratch), records, rounds),
            goal=GOAL,
        )


def _fill(bootstrap: str, records: int) -> None:
    create_topic(bootstrap, "filled", 2)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1 << 18,
            "queue.buffering.max.messages": 100_000,
        }
    )
    noise = os.urandom(1 << 24)
    for n in range(records):
        at = n * 1031 % (len(noise) - VALUE_BYTES)
        value = noise[at : at + VALUE_BYTES]
        while True:
            try:
                producer.produce(
                    "filled", value, b"key-%06d" % (n % 10**6), n % 2, headers=[("h", b"v")]
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def _measure(bootstrap: str, scratch: Path, records: int, rounds: int) -> list[dict[str, object]]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("spark_read_land")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    cases = _cases(spark, bootstrap, scratch)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            measured = _timed(case)
            if number:  # the first round warms workers and JVM, and makes the Parquet file
                times[name].append(measured)
    spark.stop()
    return [_row(name, found, records, times) for name, found in times.items()]


def _cases(spark: Any, bootstrap: str, scratch: Path) -> dict[str, Case]:
    plain = str(scratch / "plain")

    def topic() -> Any:
        options = {"bootstrap": bootstrap, "subscribe": "filled", "includeHeaders": "true"}
        return spark.read.format("penstock").options(**options).load()

    def copy() -> None:
        spark.read.parquet(plain).write.mode("overwrite").parquet(str(scratch / "copy"))

    topic().write.parquet(plain)
    return {
        "read topic": lambda: topic().write.format("noop").mode("overwrite").save(),
        "read Parquet": lambda: (
            spark.read.parquet(plain).write.format("noop").mode("overwrite").save()
        ),
        "land in Parquet": lambda: _land(spark, bootstrap, scratch, "parquet"),
        "copy Parquet": copy,
        "land in Delta": lambda: _land(spark, bootstrap, scratch, "delta"),
        "land in Iceberg": lambda: _land(spark, bootstrap, scratch, "iceberg"),
    }


def _land(spark: Any, bootstrap: str, scratch: Path, kind: TableFormat) -> None:
    table = scratch / kind
    shutil.rmtree(table, ignore_errors=True)
    options = LandOptions(topic="filled", to=table, format=kind, bootstrap=bootstrap)
    summary = Summary(topic="filled", table=str(table), format=kind)
    with BrokerAccess(bootstrap, 60) as access:
        landing = Landing(options, spark, access, log=table / "log")
        landing.run(summary, Progress(summary, show=False), StopSignal())


def _timed(case: Case) -> tuple[float, float]:
    begun, used = time.perf_counter(), _cpu_seconds()
    case()
    return time.perf_counter() - begun, _cpu_seconds() - used


def _cpu_seconds() -> float:
    """CPU time of this process, the JVM and Spark's workers, without the node's."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process is me or "node" not in process.cmdline():
                times = process.cpu_times()
                total += times.user + times.system
    return total


def _row(
    name: str,
    found: list[tuple[float, float]],
    records: int,
    times: dict[str, list[tuple[float, float]]],
) -> dict[str, object]:
    peer = "read Parquet" if name.startswith("read") else "copy Parquet"
    ratios = [theirs[0] / mine[0] for mine, theirs in zip(found, times[peer], strict=True)]
    wall, cpu = median([one[0] for one in found]), median([one[1] for one in found])
    return {
        "case": name,
        "rows/s": records / wall,
        "MB/s": records * VALUE_BYTES / wall / 1e6,
        "MB/s per core": records * VALUE_BYTES / max(cpu, 1e-9) / 1e6,
        "CPU us/row": cpu / records * 1e6,
        "x peer": median(ratios),
    }
