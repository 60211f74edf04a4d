"""History from a real HDFS: read by whom HDFS lets, and not through the brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import hdfs_server
from harness.hdfs_server import HdfsServer
from harness.node import NodeProcess
from penstock.runtime.io.hdfs_store import USER_VARIABLE
from penstock.spark.errors import HistoryUnreadable
from tests.integration.test_housekeeper import metric
from tests.spark.history import filled, partitions, read, reader, rows, tiered, tiered_node

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.compat,
    pytest.mark.timeout(900),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HdfsServer]:
    reason = hdfs_server.why_not()
    if reason is not None:
        pytest.skip(reason)
    with HdfsServer(tmp_path / "hdfs") as server:
        yield server


@pytest.fixture
def node(server: HdfsServer, tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that finds its NameNode behind a name; Spark is told of it by the node."""
    own = {"endpoint": f"{server.address},127.0.0.1:1", "upload_ms": 60_000}
    with tiered_node(tmp_path / "node", "hdfs://warehouse/penstock", **own) as node:
        yield node


def test_history_comes_from_hdfs_for_whom_it_lets_read(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(USER_VARIABLE, raising=False)
    values = filled(node)
    before = metric(node, "penstock_tier_reads_total")
    reading = reader(node, tier="required")
    parts = partitions(reading)
    assert tiered(parts)
    assert [row["value"] for row in rows(reading, parts)] == values
    assert metric(node, "penstock_tier_reads_total") == before, "a broker read the store"

    monkeypatch.setenv(USER_VARIABLE, "stranger")
    with pytest.raises(HistoryUnreadable, match="can not be read from the tier"):
        read(node, tier="required", brokerTimeout="1s")
    assert [row["value"] for row in read(node, brokerTimeout="20s")] == values


@pytest.mark.parametrize("url", ["hdfs://warehouse", "viewfs://warehouse/x"])
def test_what_is_no_place_is_refused_by_name(node: NodeProcess, url: str) -> None:
    filled(node, rounds=1)
    with pytest.raises(HistoryUnreadable, match=r"write hdfs://|tierUrl is"):
        read(node, tier="required", tierUrl=url)
