"""A client of Spark Connect whose job runs on a cluster, and an executor that dies amid the job.

The Python of server and executors does not have penstock: the client sends the package along.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock.spark
from harness.node import NodeProcess
from harness.waiting import wait_until
from penstock.spark.session import package_zip
from tests.spark.connect import ConnectServer
from tests.spark.standalone import WORKERS, StandaloneCluster, python_without_penstock
from tests.spark.stock import read_committed
from tests.spark.test_standalone_cluster import _SETTINGS, WAIT_SECONDS
from tests.spark.topics import Topics

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(1500),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
RECORDS, EACH_TASK = 24_000, 600


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    with NodeProcess(tmp_path / "node") as node, Topics(node.bootstrap) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneCluster]:
    for name in ("PYTHONPATH", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    with StandaloneCluster(tmp_path) as running:
        yield running


@pytest.fixture
def server(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[ConnectServer]:
    bare = python_without_penstock(tmp_path)
    settings = _SETTINGS | {"spark.ui.enabled": "false"}
    with ConnectServer(tmp_path, cluster.master, bare, settings) as running:
        yield running


def test_a_job_of_a_client_copies_each_record_once_though_an_executor_is_killed(
    topics: Topics, cluster: StandaloneCluster, server: ConnectServer, tmp_path: Path
) -> None:
    source, copies = topics.make(), topics.make()
    values = [b"%d" % number for number in range(RECORDS)]
    topics.fill(source, values)
    with server.session() as spark:
        spark.addArtifacts(str(package_zip(tmp_path)), pyfile=True)
        penstock.spark.register(spark)
        options = {"bootstrap": topics.bootstrap, "subscribe": source}
        reader = spark.read.format("penstock").options(**options)
        frame = reader.option("maxRecordsPerPartition", str(EACH_TASK)).load()
        writer = frame.select("key", "value").write.format("penstock").mode("append")
        writer = writer.options(bootstrap=topics.bootstrap, topic=copies)

        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(writer.save)
            _wait_for_rows(topics, copies, job)
            cluster.executors()[0].kill()
            assert topics.end(copies) < RECORDS // 2, "nothing was left to do when it was killed"
            job.result(WAIT_SECONDS)
    log = server.log()
    assert log.count("Lost executor") == 1, log
    assert cluster.workers_used() == WORKERS
    assert read_committed(topics.bootstrap, copies) == Counter(values)


def _wait_for_rows(topics: Topics, topic: str, job: Future[None]) -> None:
    """Wait until the topic has rows, which do not count yet."""

    def are_there_or_failed() -> bool:
        return topics.end(topic) > 0 or job.done()

    assert wait_until(are_there_or_failed, WAIT_SECONDS, every_seconds=0.05)
    if job.done():
        job.result()
