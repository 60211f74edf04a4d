"""The Java client and Spark's Kafka connector in the shape of `stock_clients`; jars from Maven.

    java     Kafka's own kafka-verifiable-producer, idempotent; read by kafka-console-consumer
    spark    librdkafka writes, Spark's connector streams what it reads into Parquet the while

A producer that Kafka ships for its own system tests says of each record whether it was
acknowledged, which the console producer does not. It retries nothing unless told to.
"""

import json
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.maven import jars
from reliability.clients.stock_clients import READ_SECONDS, StockClient, Stop, librdkafka_write

RECORDS_PER_SECOND = 100
STOP_SECONDS = 60

PRODUCER_SETTINGS = """
enable.idempotence=true
retries=2147483647
delivery.timeout.ms=120000
"""


def java_clients() -> tuple[StockClient, ...] | str:
    """Return the clients that need Java, or the reason why they can not be had."""
    for project in ("kafka-tools", "spark-kafka"):
        found = jars(project)
        if isinstance(found, str):
            return found
    return (
        StockClient("java", _java_write, _java_read),
        StockClient("spark-connector", _spark_write, _spark_read),
    )


def _tool(class_name: str, *arguments: str) -> list[str]:
    class_path = ":".join(str(jar) for jar in jars("kafka-tools"))
    command = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [*command, "-cp", class_path, class_name, *arguments]


def _java_write(bootstrap: str, topic: str, stop: Stop, acked: list[int]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as settings:
        settings.write(PRODUCER_SETTINGS)
        settings.flush()
        command = _tool(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1"),
            *("--throughput", str(RECORDS_PER_SECOND), "--producer.config", settings.name),
        )
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as producer:
            assert producer.stdout is not None
            told = threading.Thread(target=_end, args=(producer, stop))
            told.start()
            for line in producer.stdout:
                event = json.loads(line)
                if event["name"] == "producer_send_success":
                    acked.append(int(event["value"]))
            told.join()


def _end(producer: "subprocess.Popen[str]", stop: Stop) -> None:
    """SIGTERM makes it send what it has and end."""
    stop.wait()
    producer.send_signal(signal.SIGTERM)
    try:
        producer.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        producer.kill()


def _java_read(bootstrap: str, topic: str, count: int) -> list[int]:
    """The tool can not be told to stop at the end of the log; so long without a record is one."""
    done = subprocess.run(
        _tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--partition", "0", "--offset", "earliest", "--timeout-ms", "5000"),
        ),
        capture_output=True,
        text=True,
        timeout=READ_SECONDS + count / 1000,
        check=False,
    )
    return [int(line) for line in done.stdout.split()]


_SINKS: dict[str, Path] = {}
"""Where the stream of each topic was written to."""


def _spark_write(bootstrap: str, topic: str, stop: Stop, acked: list[int]) -> None:
    root = Path(tempfile.mkdtemp(prefix="penstock-connector-"))
    _SINKS[topic] = root / "out"
    spark = _session(root)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("offset", "cast(cast(value as string) as long) as number")
        .writeStream.format("parquet")
        .option("path", str(_SINKS[topic]))
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        librdkafka_write(bootstrap, topic, stop, acked)
        query.processAllAvailable()
    finally:
        error = query.exception()
        query.stop()
    if error is not None:
        raise RuntimeError(f"the stream ended: {error}")


def _spark_read(bootstrap: str, topic: str, count: int) -> list[int]:
    """What the stream wrote, in the order of the offsets that it was given."""
    del bootstrap, count
    root = _SINKS[topic].parent
    spark = _session(root)
    try:
        rows: Sequence[Any] = spark.read.parquet(str(_SINKS[topic])).orderBy("offset").collect()
        return [int(row.number) for row in rows]
    finally:
        spark.stop()


def _session(root: Path) -> Any:
    connector = jars("spark-kafka")
    builder: Any = SparkSession.builder
    session = (
        builder.master("local[1]")
        .config("spark.jars", ",".join(str(jar) for jar in connector))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(root / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session
