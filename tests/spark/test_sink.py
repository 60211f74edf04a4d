"""`format("penstock")` as a sink."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client.partitioner import partition_for_key
from tests.spark.stock import read_committed
from tests.spark.topics import NOON_MS, Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def _write(frame: "DataFrame", topics: Topics, **options: str) -> None:
    writer = frame.write.format("penstock").options(bootstrap=topics.bootstrap, **options)
    writer.mode("append").save()


def test_rows_become_records_where_a_java_producer_would_put_them(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make(3)
    rows = [(f"k{n}", f"v{n}") for n in range(50)]
    _write(spark.createDataFrame(rows, "key string, value string"), topics, topic=topic)
    for partition in range(3):
        expected = {key.encode(): value.encode() for key, value in rows}
        mine = {k: v for k, v in expected.items() if partition_for_key(k, 3) == partition}
        assert {r.key: r.value for r in topics.read(topic, partition)} == mine


def test_columns_choose_topic_partition_headers_and_time(
    spark: "SparkSession", topics: Topics
) -> None:
    one, other = topics.make(2), topics.make(2)
    frame = spark.sql(
        f"""select * from values
        ('{one}', 1, null, 'a', array(named_struct('key', 'h', 'value', cast('x' as binary))),
            timestamp_millis({NOON_MS})),
        ('{other}', 0, 'k', null, null, null)
        as rows(topic, partition, key, value, headers, timestamp)"""
    )
    _write(frame, topics, compression="lz4")
    (first,), (second,) = topics.read(one, 1), topics.read(other, 0)
    assert (first.key, first.value, first.timestamp_ms) == (None, b"a", NOON_MS)
    assert list(first.headers) == [("h", b"x")]
    assert (second.key, second.value, list(second.headers)) == (b"k", None, [])
    assert second.timestamp_ms > NOON_MS - 10**12


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_topic_copied_by_a_stream_is_the_same_topic(
    spark: "SparkSession", topics: Topics, tmp_path: Path, delivery: str
) -> None:
    source, target = topics.make(), topics.make()
    topics.fill(source, [b"v%d" % n for n in range(30)])
    reading = spark.readStream.format("penstock").options(
        bootstrap=topics.bootstrap,
        subscribe=source,
        startingOffsets="earliest",
        includeHeaders="true",
        maxOffsetsPerTrigger="10",
    )
    query = (
        reading.load()
        .drop("topic")
        .writeStream.format("penstock")
        .options(bootstrap=topics.bootstrap, topic=target, delivery=delivery)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied, original = topics.read(target), topics.read(source)
    assert [record[1:] for record in copied] == [record[1:] for record in original]
    counted = read_committed(topics.bootstrap, target)
    assert counted == Counter(record.value for record in original)
    assert (tmp_path / "penstock").exists() == (delivery == "exactly-once")


def test_a_batch_write_that_fails_leaves_nothing_for_readers_of_committed_records(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make()
    failing = "select if(id = 90, raise_error('bad row'), string(id)) as value from range(0, 100)"
    frame = spark.sql(failing).repartition(1)
    with pytest.raises(Exception, match="bad row"):
        _write(frame, topics, topic=topic, batchBytes="100")
    assert read_committed(topics.bootstrap, topic) == Counter()
    frame = spark.sql("select string(id) as value from range(0, 100)")
    _write(frame, topics, topic=topic)
    expected = Counter(b"%d" % n for n in range(100))
    assert read_committed(topics.bootstrap, topic) == expected


@pytest.mark.parametrize(
    ("statement", "options", "words"),
    [
        ("select 'a' as v", {"topic": "t"}, "needs a column value"),
        ("select 'a' as value", {}, "tell the topic"),
        ("select 1 as value", {"topic": "t"}, "must be string or binary"),
        ("select 'a' as value, cast(null as string) as topic", {}, "no topic"),
        ("select 'a' as value", {"topic": "nowhere"}, "does not exist"),
    ],
)
def test_rows_that_can_not_be_written_say_why(
    spark: "SparkSession", topics: Topics, statement: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        _write(spark.sql(statement), topics, **options)


def test_a_topic_is_not_overwritten(spark: "SparkSession", topics: Topics) -> None:
    writer = spark.sql("select 'a' as value").write.format("penstock")
    with pytest.raises(Exception, match="can not be overwritten"):
        writer.options(bootstrap=topics.bootstrap, topic="t").mode("overwrite").save()
