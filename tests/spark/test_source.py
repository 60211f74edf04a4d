"""`format("penstock")` as a source, batch and stream, against a running node."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.record.build import Record
from tests.lying import UNCHECKED, fill_around_a_lie
from tests.spark.topics import NOON_MS, Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def _read(spark: "SparkSession", topics: Topics, **options: str) -> "DataFrame":
    return spark.read.format("penstock").options(bootstrap=topics.bootstrap, **options).load()


def _offsets(frame: "DataFrame") -> list[tuple[int, int]]:
    rows = frame.select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def test_records_come_with_all_their_parts(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make()
    records = [
        Record(b"k", b"v", (("h", b"1"), ("h", None)), NOON_MS),
        Record(None, None, (), NOON_MS + 1),
    ]
    topics.send(topic, records)
    first, second = _read(spark, topics, subscribe=topic, includeHeaders="true").collect()
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k", b"v", topic)
    assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
    assert first.timestamp.timestamp() * 1000 == NOON_MS
    assert [(h.key, h.value and bytes(h.value)) for h in first.headers] == [
        ("h", b"1"),
        ("h", None),
    ]
    assert (second.key, second.value, second.headers) == (None, None, [])


def test_a_batch_reads_the_ranges_it_is_told(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make(2)
    topics.fill(topic, [b"v"] * 10)
    topics.fill(topic, [b"v"] * 10, partition=1)
    frame = _read(
        spark,
        topics,
        assign=f'{{"{topic}": [0, 1]}}',
        startingOffsets=f'{{"{topic}": {{"0": 8, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": -1, "1": 3}}}}',
    )
    assert _offsets(frame) == [(0, 8), (0, 9), (1, 0), (1, 1), (1, 2)]
    later = _read(
        spark,
        topics,
        subscribePattern=topic,
        startingTimestamp=str(NOON_MS + 6_500),
        endingTimestamp=str(NOON_MS + 8_000),
    )
    assert _offsets(later) == [(0, 7), (1, 7)]


def test_long_ranges_are_shared_over_tasks(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 100)
    frame = _read(spark, topics, subscribe=topic, minPartitions="4")
    assert frame.rdd.getNumPartitions() == 4
    assert len(_offsets(frame)) == 100
    small = _read(spark, topics, subscribe=topic, maxRecordsPerPartition="30")
    assert small.rdd.getNumPartitions() == 4


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_queries_of_one_frame_do_not_filter_each_other(
    spark: "SparkSession", topics: Topics, pushdown: str
) -> None:
    """Spark 4.2 keeps for a frame what the filters pushed last have left (SPARK-58551)."""
    topic = topics.make(2)
    for partition in (0, 1):
        topics.fill(topic, [b"v"] * 20, partition=partition)
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        frame = _read(spark, topics, subscribe=topic)
        late = f"timestamp >= timestamp_millis({NOON_MS + 15_000})"
        kept = frame.where(f"partition = 1 and offset < 17 and {late}")
        assert _offsets(kept) == [(1, 15), (1, 16)]
        assert frame.count() == 40
        first, others = frame.where("offset < 5"), frame.where("offset >= 5")
        assert first.union(others).count() == 40
        assert (others.count(), first.count()) == (30, 10)
        assert _offsets(frame.where("partition in (0, 5) and offset = 3")) == [(0, 3)]
    finally:
        spark.conf.unset(PUSHDOWN)


def test_a_frame_keeps_the_ranges_of_its_first_action(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 10)
    frame = _read(spark, topics, subscribe=topic)
    assert frame.count() == 10
    topics.fill(topic, [b"v"] * 5)
    assert frame.count() == 10
    assert _read(spark, topics, subscribe=topic).count() == 15


def test_a_schema_leaves_columns_out(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [b"a", b"b"])
    reader = spark.read.format("penstock").schema("offset long, value binary")
    frame = reader.options(bootstrap=topics.bootstrap, subscribe=topic).load()
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [(0, b"a"), (1, b"b")]
    with pytest.raises(Exception, match="no column size"):
        spark.read.format("penstock").schema("size long").options(
            bootstrap=topics.bootstrap, subscribe=topic
        ).load().collect()


def test_records_that_are_gone_are_an_error_unless_allowed(
    spark: "SparkSession", topics: Topics
) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 10)
    topics.admin.delete_records(topic, {0: 6})
    start = f'{{"{topic}": {{"0": 2}}}}'
    with pytest.raises(Exception, match="from offset 2 are gone"):
        _read(spark, topics, subscribe=topic, startingOffsets=start).collect()
    lenient = _read(spark, topics, subscribe=topic, startingOffsets=start, failOnDataLoss="false")
    assert _offsets(lenient) == [(0, n) for n in range(6, 10)]


def test_what_is_wrong_is_said_in_words(spark: "SparkSession", topics: Topics) -> None:
    with pytest.raises(Exception, match="topic nowhere does not exist"):
        _read(spark, topics, subscribe="nowhere").collect()
    with pytest.raises(Exception, match="did you mean subscribe"):
        _read(spark, topics, subscrib="t").collect()


class _Landed:
    """Runs a stream to its end and keeps what came."""

    def __init__(self, spark: "SparkSession", topics: Topics, tmp_path: Path) -> None:
        self._spark, self._topics, self._path = spark, topics, tmp_path

    def run(self, **options: str) -> "StreamingQuery":
        source = self._spark.readStream.format("penstock")
        frame = source.options(bootstrap=self._topics.bootstrap, **options).load()
        query = (
            frame.select("topic", "partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._path / "rows"))
        )
        query.awaitTermination()
        return query

    def offsets(self) -> list[tuple[int, int]]:
        return _offsets(self._spark.read.parquet(str(self._path / "rows")))


def _rows(query: Any) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_a_stream_goes_on_from_its_checkpoint_in_limited_batches(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    stream = _Landed(spark, topics, tmp_path)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    for partition, count in ((0, 60), (1, 20)):
        topics.fill(topic, [b"v"] * count, partition=partition)
    first = stream.run(**options)
    assert max(_rows(first)) <= 30
    assert len(stream.offsets()) == 80
    topics.fill(topic, [b"v"] * 5)
    assert sum(_rows(stream.run(**options))) == 5
    assert stream.offsets() == [(0, n) for n in range(65)] + [(1, n) for n in range(20)]


def test_progress_shows_the_newest_offset_so_that_lag_can_be_seen(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    from penstock.spark import lag_of

    topic = topics.make()
    topics.fill(topic, [b"v"] * 40)
    stream = _Landed(spark, topics, tmp_path)
    query = stream.run(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    lags = [sum(lag_of(progress).values()) for progress in query.recentProgress]
    assert lags[:4] == [30, 20, 10, 0]


def test_partitions_that_come_later_are_read_from_their_first_record(
    spark: "SparkSession", topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, [b"v"] * 3)
    stream = _Landed(spark, topics, tmp_path)
    stream.run(subscribe=topic, startingOffsets="earliest")
    topics.admin.create_partitions(topic, 2)
    topics.fill(topic, [b"v"] * 4, partition=1)
    stream.run(subscribe=topic, startingOffsets="earliest")
    assert stream.offsets() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_what_can_not_be_read_is_named_or_left_out(spark: "SparkSession", topics: Topics) -> None:
    topic = topics.make(configs=UNCHECKED)
    fill_around_a_lie(topics.port, topic)
    with pytest.raises(Exception, match=f"{topic}-0: offsets 1 to 2 can not be read"):
        _offsets(_read(spark, topics, subscribe=topic))
    left = _read(spark, topics, subscribe=topic, skipCorrupt="true")
    assert _offsets(left) == [(0, 0), (0, 3)]
