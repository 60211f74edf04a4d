"""Runs Spark's cases: reading a topic and landing it, beside its own connector and Parquet copy.

One session and one topic of 1 KiB values (half of each is noise) in two partitions of one of our
nodes; for the tier a topic with the same records in another one's store (spark_tier.py). Every
round runs all cases, another one first each time, after a round that warms up. CPU seconds are
those of the JVM and its Python workers, without the nodes'. The connector reads the same topic from
the same node, so a ratio compares the readers and not the servers.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from benchmarks.peers.model import Answer, Question, Scale, Spec
from benchmarks.peers.ratios import Samples, rotated
from benchmarks.peers.rounds import Say
from benchmarks.peers.servers import open_server
from benchmarks.peers.spark_readers import CONNECTOR, NODE, PARQUET, TIER
from benchmarks.peers.spark_tier import TieredTopic, tiered_topic
from harness.maven import jars
from penstock.spark import register
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.land import LandOptions
from penstock.spark.land.job import Landing, StopSignal
from penstock.spark.land.options import TableFormat
from penstock.spark.land.progress import Progress, Summary

TOPIC = "filled"
VALUE_BYTES = 1024
PARTITIONS = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.parquet.compression.codec": "snappy",
}
Case = Callable[[], None]


def ask_cases(
    questions: Sequence[Question], scale: Scale, *, rounds: int, say: Say
) -> dict[str, Samples]:
    """Run the cases of these questions in rounds; returns what each question showed."""
    samples = {question.name: Samples() for question in questions}
    how = (PARTITIONS, VALUE_BYTES, 262_144, "none", scale.spark_records * VALUE_BYTES)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(open_server(NODE))
        spark, scratch = stack.enter_context(_session()), stack.enter_context(_scratch())
        server.load.create(server.bootstrap, TOPIC, PARTITIONS)
        server.load.produce(server.bootstrap, TOPIC, how)
        cases, nodes = _cases(spark, server.bootstrap, scratch), server.pids()
        if any(TIER in question.specs for question in questions):
            tiered = stack.enter_context(tiered_topic(TOPIC, PARTITIONS, how))
            cases["read-tier", TIER] = _history(spark, tiered)
            cases["read-tier", PARQUET] = cases["read-broker", PARQUET]
            nodes = [*nodes, tiered.node.pid]
        wanted = [
            (question.name, spec, cases[_kind(question), spec])
            for question in questions
            for spec in question.specs
        ]
        for turn in range(-1, rounds):  # the first one warms up
            say(f"spark, round {turn + 1} of {rounds}")
            _turn(wanted, nodes, scale, turn=turn, samples=samples)
    return samples


def _kind(question: Question) -> str:
    return question.name.removeprefix("spark-")


def _turn(
    wanted: Sequence[tuple[str, Spec, Case]],
    nodes: Sequence[int],
    scale: Scale,
    *,
    turn: int,
    samples: dict[str, Samples],
) -> None:
    """Run every case once, one that several questions want only once."""
    once: dict[Case, Answer] = {}
    for name, spec, case in rotated(wanted, max(turn, 0)):
        if case not in once:
            once[case] = _timed(case, nodes, scale)
        if turn >= 0:
            samples[name].add(spec, turn, once[case])


def _timed(case: Case, nodes: Sequence[int], scale: Scale) -> Answer:
    begun, used = time.perf_counter(), _cpu_seconds(nodes)
    case()
    seconds, cpu = time.perf_counter() - begun, _cpu_seconds(nodes) - used
    megabytes = scale.spark_records * VALUE_BYTES / 1e6
    return {
        "MB/s": megabytes / seconds,
        "core": megabytes / max(cpu, 1e-9),
        "row": cpu / scale.spark_records * 1e6,
    }


def _cpu_seconds(nodes: Sequence[int]) -> float:
    """CPU time of this process, the JVM and Spark's workers; not of nodes and their children."""
    me, total = psutil.Process(), 0.0
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid not in nodes and process.ppid() not in nodes:
                times = process.cpu_times()
                total += times.user + times.system
    return total


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-spark-") as directory:
        yield Path(directory)


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").appName("peers")
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars("spark-kafka")))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def _cases(spark: Any, bootstrap: str, scratch: Path) -> dict[tuple[str, Spec], Case]:
    plain = str(scratch / "plain")

    def topic() -> Any:
        options = {"bootstrap": bootstrap, "subscribe": TOPIC}
        return spark.read.format("penstock").options(**options).load()

    def connector() -> Any:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}
        return spark.read.format("kafka").options(**options).load()

    def read(frame: Callable[[], Any]) -> Case:
        return lambda: frame().write.format("noop").mode("overwrite").save()

    def copy(frame: Callable[[], Any]) -> Case:
        return lambda: frame().write.mode("overwrite").parquet(str(scratch / "copy"))

    def file() -> Any:
        return spark.read.parquet(plain)

    topic().write.parquet(plain)
    copy_file = copy(file)
    found: dict[tuple[str, Spec], Case] = {
        ("read-broker", NODE): read(topic),
        ("read-broker", CONNECTOR): read(connector),
        ("read-broker", PARQUET): read(file),
        ("land-parquet", CONNECTOR): copy(connector),
    }
    kinds: tuple[TableFormat, ...] = ("parquet", "delta", "iceberg")
    for kind in kinds:
        found[f"land-{kind}", NODE] = _landing(spark, bootstrap, scratch, kind)
        found[f"land-{kind}", PARQUET] = copy_file
    return found


def _history(spark: Any, tiered: TieredTopic) -> Case:
    """Read what the store has of a topic, and no broker."""
    ends = {tiered.name: {str(partition): end for partition, end in tiered.ends.items()}}
    options = {
        "bootstrap": tiered.node.bootstrap,
        "subscribe": tiered.name,
        "endingOffsets": json.dumps(ends),
        "tier": "required",
    }

    def read() -> None:
        frame = spark.read.format("penstock").options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    return read


def _landing(spark: Any, bootstrap: str, scratch: Path, kind: TableFormat) -> Case:
    def land() -> None:
        table = scratch / kind
        shutil.rmtree(table, ignore_errors=True)
        options = LandOptions(topic=TOPIC, to=table, format=kind, bootstrap=bootstrap)
        summary = Summary(topic=TOPIC, table=str(table), format=kind)
        with BrokerAccess(bootstrap, 60) as access:
            landing = Landing(options, spark, access, log=table / "log")
            landing.run(summary, Progress(summary, show=False), StopSignal())

    return land
