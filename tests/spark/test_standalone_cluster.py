"""`penstock land` on a cluster: master and two workers of one machine, an executor dies meanwhile.

`--master` is all that differs from the other tests. The executors' Python does not have penstock:
the package travels with the job.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.node import NodeProcess
from tests.spark.landing import PARTITIONS, LandProcess, Stream, check_exactly_once
from tests.spark.standalone import WORKERS, StandaloneCluster, python_without_penstock
from tests.spark.tables import read_table
from tests.spark.topics import Topics

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(1500),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
WAIT_SECONDS = 500.0
"""Five JVMs start one after the other; on a loaded machine each takes its time."""
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss2m",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneCluster]:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with StandaloneCluster(tmp_path) as running:
        yield running


def _rows(table: Path) -> int:
    return int(read_table("delta", table).num_rows) if (table / "_delta_log").exists() else 0


def _wait_a_little(job: LandProcess, cluster: StandaloneCluster, deadline: float) -> None:
    assert job.is_running, job.log()
    assert time.monotonic() < deadline, job.log() + cluster.log()
    time.sleep(0.05)


def test_the_bare_python_does_not_have_penstock(tmp_path: Path) -> None:
    program = (
        "import pyarrow, crc32c, kio, cramjam, importlib.util as u; print(u.find_spec('penstock'))"
    )
    bare = python_without_penstock(tmp_path)
    assert subprocess.check_output([bare, "-c", program], text=True) == "None\n"


def test_a_cluster_lands_each_record_once_though_an_executor_is_killed(
    node: NodeProcess, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    table, topic = tmp_path / "table", "t"
    with Topics(node.bootstrap) as topics:
        topics.admin.create_topic(topic, partitions=PARTITIONS)
    stream = Stream(node.bootstrap, topic)
    stream.send(60_000)
    settings = _SETTINGS | {"spark.pyspark.python": str(python_without_penstock(tmp_path))}
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    how = ("--format", "delta", "--schema", "n long", "--partition-by", "none", *conf)
    small = ("--stream", "--max-records-per-batch", "30000")
    job = LandProcess(table, topic, node.bootstrap, *small, *how, master=cluster.master)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        victims: list[psutil.Process] = []
        while _rows(table) < (61_000 if victims else 1):
            _wait_a_little(job, cluster, deadline)
            stream.send(60)
            if not victims and _rows(table):
                victims = cluster.executors()[:1]
                victims[0].kill()
        stream.finish()
        while _rows(table) < stream.fitting:
            _wait_a_little(job, cluster, deadline)
        job.end()
    finally:
        job.kill()
    assert cluster.workers_used() == WORKERS
    check_exactly_once(
        stream, read_table("delta", table), read_table("delta", tmp_path / "table_dead_letter")
    )
