"""Rows of client metrics land as their page says, without a decoder."""

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.broker_access import BrokerAccess
from penstock.spark.land import LandOptions
from penstock.spark.land.job import Landing, StopSignal
from penstock.spark.land.progress import Progress, Summary
from penstock.telemetry.row import TOPIC
from tests.kafka.test_client_metrics import configure, push, subscribed, taken_by
from tests.live_node import running_node
from tests.spark.tables import read_table
from tests.telemetry.pushes import data_of, gauge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
PAGE = Path(__file__).parents[2] / "docs" / "operations" / "client-metrics.md"


def test_rows_land_with_the_schema_of_the_page(spark: "SparkSession", tmp_path: Path) -> None:
    (schema,) = re.findall(rf'penstock land {TOPIC} .*--schema "(.*)"', PAGE.read_text())
    (tmp_path / "node").mkdir()
    with running_node(tmp_path / "node", "broker.client_metrics=true") as node:
        with closing(node.connect()) as client:
            configure(client, "all", {"metrics": "*"})
            pushed = data_of(gauge("org.a", 1.5, node="7"), gauge("org.b", 3.0))
            assert push(client, subscribed(client), pushed) == 0
        taken = taken_by(node)
        assert node.until(lambda: taken.written == 2)
        options = LandOptions(
            topic=TOPIC,
            to=tmp_path / "table",
            bootstrap=f"127.0.0.1:{node.port}",
            schema=schema,
        )
        summary = Summary(topic=TOPIC, table=str(options.to), format=options.format)
        with (
            BrokerAccess(options.bootstrap, 120, is_committed_only=True) as access,
            closing(Landing(options, spark, access, log=options.to / "log")) as landing,
        ):
            landing.run(summary, Progress(summary, show=False), StopSignal())
    rows = {row["metric"]: row for row in read_table("parquet", options.to).to_pylist()}
    assert rows.keys() == {"org.a", "org.b"}
    found = rows["org.a"]
    assert (found["v"], found["value"], found["client_id"]) == (1, 1.5, "raw-client")
    assert found["attributes"] == [{"key": "node", "value": "7"}]
    assert (found["time_ms"], found["total_count"], found["is_monotonic"]) == (5, None, False)
