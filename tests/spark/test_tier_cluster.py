"""History on a cluster: executors read the store themselves, and one of them dies meanwhile."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from harness.node import NodeProcess
from harness.workload import create_topic
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.tier import tier_part
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import Directory, settings, until
from tests.integration.test_tier_reads import FREED
from tests.spark.landing import PARTITIONS, LandProcess, Stream, check_exactly_once
from tests.spark.standalone import WORKERS, StandaloneCluster, python_without_penstock
from tests.spark.tables import read_table
from tests.spark.test_standalone_cluster import _SETTINGS, WAIT_SECONDS, _rows, _wait_a_little

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(1500),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
TOPIC = "t"
RECORDS = 90_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as running:
        create_topic(running.bootstrap, TOPIC, PARTITIONS, FREED)
        yield running


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneCluster]:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with StandaloneCluster(tmp_path) as running:
        yield running


def _is_copied(node: NodeProcess) -> bool:
    """Whether the store has half of each partition, and more."""
    with Cluster(ClientSettings(bootstrap=node.bootstrap, deadline_ms=60_000)) as cluster:
        ends = [tier_part(cluster, TOPIC, at, 0).end_offset for at in range(PARTITIONS)]
    return min(ends) > RECORDS // PARTITIONS // 2


def test_a_cluster_lands_history_from_the_store_once_though_an_executor_is_killed(
    node: NodeProcess, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    stream = Stream(node.bootstrap, TOPIC)
    stream.send(RECORDS)
    stream.finish()
    until(partial(_is_copied, node), node)
    before = metric(node, "penstock_tier_reads_total")
    conf = _SETTINGS | {"spark.pyspark.python": str(python_without_penstock(tmp_path))}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    how = ("--format", "delta", "--schema", "n long", "--partition-by", "none", *words)
    small = ("--tier", "required", "--max-records-per-batch", "9000")
    job = LandProcess(table, TOPIC, node.bootstrap, *small, *how, master=cluster.master)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        victims: list[psutil.Process] = []
        while not victims:
            _wait_a_little(job, cluster, deadline)
            if _rows(table):
                victims = cluster.executors()[:1]
                victims[0].kill()
        assert _rows(table) < RECORDS // 2, "nothing was left to read when it was killed"
        assert job.wait() == 0, job.log()
    finally:
        job.kill()
    assert cluster.workers_used() == WORKERS
    check_exactly_once(
        stream, read_table("delta", table), read_table("delta", tmp_path / "table_dead_letter")
    )
    assert metric(node, "penstock_tier_reads_total") == before, "a broker read the store"
