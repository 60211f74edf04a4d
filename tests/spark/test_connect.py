"""Source and sink for clients of Spark Connect, whose server is a process of its own."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock.spark
from harness.node import NodeProcess
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, Directory, produce
from tests.spark.conftest import SETTINGS
from tests.spark.connect import ConnectServer
from tests.spark.history import filled, tiered_node
from tests.spark.stock import WAIT_SECONDS, read_committed
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("tiered")
    store = Directory(directory / "store")
    with tiered_node(directory / "node", store.url) as node:
        yield node


@pytest.fixture(scope="module")
def history(node: NodeProcess) -> list[bytes]:
    """The values of a topic, most of which the store alone has."""
    return filled(node)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A client's session that knows the format penstock."""
    directory = tmp_path_factory.mktemp("connect")
    with (
        ConnectServer(directory, "local[2]", Path(sys.executable), SETTINGS) as server,
        server.session() as session,
    ):
        penstock.spark.register(session)
        yield session


@pytest.fixture
def topics(node: NodeProcess) -> Iterator[Topics]:
    with Topics(node.bootstrap) as made:
        yield made


def _history(spark: "SparkSession", node: NodeProcess) -> "DataFrame":
    options = {"bootstrap": node.bootstrap, "subscribe": TOPIC, "tier": "required"}
    return spark.read.format("penstock").options(**options).load()


def _sink(node: NodeProcess, topic: str) -> dict[str, str]:
    """The node's segments are small, and so must batches be."""
    return {"bootstrap": node.bootstrap, "topic": topic, "batchBytes": "65536"}


def test_a_client_reads_history_from_the_store_and_no_broker_does(
    spark: "SparkSession", node: NodeProcess, history: list[bytes]
) -> None:
    before = metric(node, "penstock_tier_reads_total")
    frame = _history(spark, node).orderBy("offset")
    assert [bytes(row.value) for row in frame.collect()] == history
    late = frame.where(f"offset >= {COUNT} and offset < {COUNT + 7}")
    assert [bytes(row.value) for row in late.collect()] == history[COUNT : COUNT + 7]
    assert frame.count() == len(history), "a filter of one query is not one of the frame"
    assert metric(node, "penstock_tier_reads_total") == before, "a broker read the store"


def test_a_client_writes_a_batch_of_history_once(
    spark: "SparkSession", node: NodeProcess, topics: Topics, history: list[bytes]
) -> None:
    copies = topics.make(2)
    writer = _history(spark, node).select("key", "value").write.format("penstock")
    writer.options(**_sink(node, copies)).mode("append").save()
    assert read_committed(node.bootstrap, copies, 2) == Counter(history)


def test_a_stream_of_a_client_goes_on_where_it_ended_and_writes_each_row_once(
    spark: "SparkSession", node: NodeProcess, topics: Topics, tmp_path: Path
) -> None:
    source, copies = topics.make(), topics.make()
    sent: list[bytes] = []
    for _ in range(2):
        sent += produce(node, source, len(sent), COUNT)
        options = {"bootstrap": node.bootstrap, "subscribe": source}
        stream = spark.readStream.format("penstock").options(**options)
        frame = stream.option("startingOffsets", "earliest").load().select("key", "value")
        writer = frame.writeStream.format("penstock").option("checkpointLocation", str(tmp_path))
        writer = writer.options(**_sink(node, copies))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_SECONDS)), query.status
        progress = query.lastProgress
        assert progress is not None
        assert [one["numInputRows"] for one in progress["sources"]] == [COUNT]
        assert list(penstock.spark.lag_of(progress).values()) == [0]
    assert read_committed(node.bootstrap, copies) == Counter(sent)


def test_what_a_client_asks_for_wrongly_is_told_to_it(
    spark: "SparkSession", node: NodeProcess, topics: Topics, tmp_path: Path
) -> None:
    reader = spark.read.format("penstock").option("bootstrap", node.bootstrap)
    with pytest.raises(Exception, match="option nonsense is not known to the penstock source"):
        reader.options(subscribe=TOPIC, nonsense="1").load().collect()
    with pytest.raises(Exception, match="no-such"):
        spark.read.format("penstock").options(
            bootstrap=node.bootstrap, subscribe="no-such", brokerTimeout="1s"
        ).load().collect()
    rows = spark.sql("select 1 as number")
    with pytest.raises(Exception, match="the sink needs a column value"):
        rows.write.format("penstock").options(bootstrap=node.bootstrap, topic=topics.make()).mode(
            "append"
        ).save()
