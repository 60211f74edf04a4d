"""Rows of the audit land as the page of the audit says, without a decoder."""

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.land import LandOptions
from penstock.spark.land.job import Landing, StopSignal
from penstock.spark.land.progress import Progress, Summary
from tests.broker.fetches import create, fill
from tests.live_node import running_node
from tests.spark.tables import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
PAGE = Path(__file__).parents[2] / "docs" / "operations" / "audit.md"
BATCHES = 3


def test_rows_land_with_the_schema_of_the_page(spark: "SparkSession", tmp_path: Path) -> None:
    (schema,) = re.findall(r'penstock land __penstock_audit .*--schema "(.*)"', PAGE.read_text())
    (tmp_path / "node").mkdir()
    with running_node(tmp_path / "node", "broker.audit=true", "broker.audit_fold_ms=500") as node:
        with closing(node.connect()) as client:
            create(node, partitions=1)
            fill(client, BATCHES)
        audit = node.broker.audit
        assert audit is not None
        assert node.until(lambda: audit.written and not len(audit) and not len(audit.fold))
        options = LandOptions(
            topic=AUDIT_TOPIC,
            to=tmp_path / "table",
            bootstrap=f"127.0.0.1:{node.port}",
            schema=schema,
        )
        summary = Summary(topic=AUDIT_TOPIC, table=str(options.to), format=options.format)
        with (
            BrokerAccess(options.bootstrap, 120, is_committed_only=True) as access,
            closing(Landing(options, spark, access, log=options.to / "log")) as landing,
        ):
            landing.run(summary, Progress(summary, show=False), StopSignal())
    rows = read_table("parquet", options.to).to_pylist()
    found = [row for row in rows if (row["operation"], row["topic"]) == ("produce", "events")]
    assert sum(row["requests"] for row in found) == BATCHES
    assert {(row["v"], row["principal"], row["partition"]) for row in found} == {
        (1, "User:ANONYMOUS", 0)
    }
    assert all(row["began_ms"] < row["ended_ms"] for row in rows)
