"""Spark's own Kafka connector: batch read, stream read, write."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for number in range(count):
        producer.produce(topic, f"v{number}", f"k{number}", headers=[("n", b"1")])
    assert producer.flush(30) == 0


def options(bootstrap: str, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}


def test_a_batch_read_sees_every_record(spark: object, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 500)
    reader = spark.read.format("kafka").options(**options(bootstrap, topic))  # type: ignore[attr-defined]
    rows = reader.load().selectExpr("string(key) k", "string(value) v", "headers").collect()
    assert {(row.k, row.v) for row in rows} == {(f"k{n}", f"v{n}") for n in range(500)}
    assert rows[0].headers[0].key == "n"


def test_a_stream_reads_what_is_there_and_goes_on_from_its_checkpoint(
    spark: object, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    for round_number in (1, 2):
        fill(bootstrap, topic, 200)
        stream = spark.readStream.format("kafka").options(**options(bootstrap, topic))  # type: ignore[attr-defined]
        query = (
            stream.option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 90)
            .load()
            .selectExpr("partition", "offset", "string(value) v")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "out"))  # type: ignore[attr-defined]
        assert rows.count() == 200 * round_number
        assert rows.select("partition", "offset").distinct().count() == 200 * round_number


def test_a_batch_write_arrives(spark: object, bootstrap: str, topic: str) -> None:
    frame = spark.range(300).selectExpr("string(id) key", "concat('w', id) value")  # type: ignore[attr-defined]
    target = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    frame.write.format("kafka").options(**target).save()
    back = spark.read.format("kafka").options(**options(bootstrap, topic)).load()  # type: ignore[attr-defined]
    assert {row.v for row in back.selectExpr("string(value) v").collect()} == {
        f"w{n}" for n in range(300)
    }
