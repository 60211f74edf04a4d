"""Isolation of source and `land`: what a stock producer has committed, aborted, left open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.spark.broker_access import BrokerAccess
from penstock.spark.options import source_options
from penstock.spark.planning import batch_ranges
from penstock.spark.ranges import PartitionName
from penstock.spark.source import StreamReader
from tests.spark.tables import read_table
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
WAIT_SECONDS = 60.0
COMMITTED = [(1, b"c0"), (2, b"c1"), (7, b"c2")]
"""Offsets 0, 3 and 5 are markers or aborted; see `mixed`."""


def _producer(topics: Topics, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": topics.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(WAIT_SECONDS)
    return producer


def _send(producer: Producer, topic: str, *values: bytes) -> None:
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


@contextmanager
def _open_transaction(topics: Topics, topic: str, *values: bytes) -> Iterator[Producer]:
    producer = _producer(topics, f"{topic}-open")
    producer.begin_transaction()
    _send(producer, topic, *values)
    yield producer
    producer.abort_transaction(WAIT_SECONDS)


@pytest.fixture
def mixed(topics: Topics) -> str:
    """a0 aborted (0), c0 c1 committed (1, 2) between; markers (3, 4); a1 aborted (5), its marker
    (6), c2 without a transaction (7).
    """
    topic = topics.make()
    aborting, committing = _producer(topics, f"{topic}-a"), _producer(topics, f"{topic}-c")
    aborting.begin_transaction()
    _send(aborting, topic, b"a0")
    committing.begin_transaction()
    _send(committing, topic, b"c0", b"c1")
    committing.commit_transaction(WAIT_SECONDS)
    aborting.abort_transaction(WAIT_SECONDS)
    aborting.begin_transaction()
    _send(aborting, topic, b"a1")
    aborting.abort_transaction(WAIT_SECONDS)
    plain = Producer({"bootstrap.servers": topics.bootstrap})
    _send(plain, topic, b"c2")
    return topic


def _rows(frame: Any) -> list[tuple[int, bytes]]:
    return sorted((row.offset, bytes(row.value)) for row in frame.collect())


def _read(spark: "SparkSession", topics: Topics, topic: str, **options: str) -> Any:
    reader = spark.read.format("penstock").options(bootstrap=topics.bootstrap, subscribe=topic)
    return reader.options(**options).load()


def test_a_batch_reads_what_was_committed_up_to_the_first_open_transaction(
    spark: "SparkSession", topics: Topics, mixed: str
) -> None:
    with _open_transaction(topics, mixed, b"o0"):
        assert _rows(_read(spark, topics, mixed)) == COMMITTED
        cut = _read(spark, topics, mixed, maxRecordsPerPartition="1")
        assert _rows(cut) == COMMITTED
        everything = _rows(_read(spark, topics, mixed, isolation="read_uncommitted"))
        values = [value for _, value in everything]
        assert values == [b"a0", b"c0", b"c1", b"a1", b"c2", b"o0"]  # markers are never rows


def test_an_end_behind_what_is_decided_is_refused(topics: Topics, mixed: str) -> None:
    ends = {"endingOffsets": f'{{"{mixed}": {{"0": 9}}}}'}
    given = {"bootstrap": topics.bootstrap, "subscribe": mixed, **ends}
    with (
        _open_transaction(topics, mixed, b"o0", b"o1"),
        BrokerAccess(topics.bootstrap, 30, is_committed_only=True) as access,
        pytest.raises(Exception, match=r"it is decided up to offset 8 .* not up to 9"),
    ):
        batch_ranges(access, source_options(given, streaming=False))


def test_a_stream_waits_for_the_open_transaction_and_goes_on_behind_it(
    spark: "SparkSession", topics: Topics, mixed: str, tmp_path: Path
) -> None:
    def run() -> list[tuple[int, bytes]]:
        source = spark.readStream.format("penstock").option(
            "kafka.isolation.level", "read_committed"
        )
        frame = source.options(
            bootstrap=topics.bootstrap, subscribe=mixed, startingOffsets="earliest"
        ).load()
        query = (
            frame.select("offset", "value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        query.awaitTermination()
        return _rows(spark.read.parquet(str(tmp_path / "rows")))

    with _open_transaction(topics, mixed, b"o0"):
        _send(Producer({"bootstrap.servers": topics.bootstrap}), mixed, b"c3")
        assert run() == COMMITTED
    topics.until_decided(mixed)
    assert run() == [*COMMITTED, (9, b"c3")]


def test_a_checkpoint_of_a_reader_of_uncommitted_records_is_no_loss(
    topics: Topics, mixed: str
) -> None:
    with _open_transaction(topics, mixed, b"o0"):
        given = {"bootstrap": topics.bootstrap, "subscribe": mixed}
        reader = StreamReader(source_options(given, streaming=True), ("offset",))
        ahead = {mixed: {"0": 9}}
        assert reader.latestOffset(ahead, reader.getDefaultReadLimit()) == ahead
        beyond = {mixed: {"0": 10}}
        with pytest.raises(Exception, match="from offset 10 are gone, the log now has 9"):
            reader.latestOffset(beyond, reader.getDefaultReadLimit())
        reader.stop()


def test_lookups_by_time_end_where_what_is_decided_ends(topics: Topics, mixed: str) -> None:
    with _open_transaction(topics, mixed, b"o0"):
        name = PartitionName(mixed, 0)
        ends = []
        for is_committed_only in (True, False):
            with BrokerAccess(topics.bootstrap, 30, is_committed_only=is_committed_only) as access:
                ends.append(access.latest([name])[name])
                assert access.high_watermarks([name]) == {name: 9}
        assert ends == [8, 9]


def test_a_table_has_what_was_committed(
    spark: "SparkSession", topics: Topics, mixed: str, tmp_path: Path
) -> None:
    from tests.spark.test_land import Job

    job = Job(spark, topics, tmp_path / "table")
    with _open_transaction(topics, mixed, b"o0"):
        job.run(mixed, format="parquet", schema="raw")
    topics.until_decided(mixed)
    job.run(mixed, format="parquet", schema="raw")
    rows = read_table("parquet", tmp_path / "table").to_pylist()
    assert sorted((row["offset"], row["value"]) for row in rows) == COMMITTED
