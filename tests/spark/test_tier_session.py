"""A Spark session, a stream and a landing take history from the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.node import NodeProcess
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.land import LandOptions
from penstock.spark.land.job import Landing, StopSignal
from penstock.spark.land.progress import Progress, Summary
from penstock.spark.tier.options import TierOptions
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, Directory
from tests.spark.history import filled, tiered_node
from tests.spark.tables import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    store = Directory(tmp_path / "store")
    with tiered_node(tmp_path / "node", store.url) as node:
        yield node


def test_tasks_streams_and_landings_read_the_store_and_no_broker_does(
    spark: "SparkSession", node: NodeProcess, tmp_path: Path
) -> None:
    values = filled(node)
    before = metric(node, "penstock_tier_reads_total")
    options = {"bootstrap": node.bootstrap, "subscribe": TOPIC, "tier": "required"}

    frame = spark.read.format("penstock").options(**options).load()
    assert [bytes(row.value) for row in frame.orderBy("offset").collect()] == values
    late = frame.where(f"offset >= {COUNT} and offset < {COUNT + 7}").orderBy("offset")
    assert [bytes(row.value) for row in late.collect()] == values[COUNT : COUNT + 7]

    stream = spark.readStream.format("penstock").options(**options)
    stream = stream.option("startingOffsets", "earliest")
    query = (
        stream.option("maxOffsetsPerTrigger", str(COUNT // 2))
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    got = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [bytes(row.value) for row in got] == values

    table = tmp_path / "table"
    land = LandOptions(
        topic=TOPIC,
        to=table,
        format="delta",
        bootstrap=node.bootstrap,
        max_records_per_batch=COUNT,
        tier=TierOptions(use="required"),
    )
    summary = Summary(topic=TOPIC, table=str(table), format="delta")
    with BrokerAccess(node.bootstrap, 60, is_committed_only=True) as access:
        landing = Landing(land, spark, access, log=tmp_path / "log")
        landing.run(summary, Progress(summary, show=False), StopSignal())
        landing.close()
    landed = read_table("delta", table).sort_by("offset")
    assert landed.column("value").to_pylist() == values
    assert metric(node, "penstock_tier_reads_total") == before, "a broker read the store"
