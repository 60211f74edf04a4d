"""One node for all clients; every test takes topics and groups with names of its own."""

import gc
import itertools
import warnings
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.parts import kafka
from benchmarks.parts.kafka import KafkaCluster
from harness.node import NodeProcess
from harness.share_groups import configure_group
from harness.waiting import UNTIL_SECONDS
from tests.compat.java_tools import jars_or_skip

SHARES_PROJECT = "kafka-shares"
"""Kafka 4.1 takes half of the member ids of librdkafka for none, and answers an unknown error."""
SHARE_PARTITIONS = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NewTopicName = Callable[..., str]


@pytest.fixture(autouse=True)
def _leftovers_of_clients() -> Iterator[None]:
    """Collect what clients that nobody here wrote have left open: it is told in no other test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the node that all compatibility tests share."""
    with NodeProcess(tmp_path_factory.mktemp("compat") / "node") as node:
        yield node.bootstrap


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest, _numbers: Iterator[int]) -> str:
    """A name nobody else uses, for a topic or a group."""
    test = request.node.name.partition("[")[0].removeprefix("test_")[:60]
    return f"{test}-{next(_numbers)}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A new topic with three partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(UNTIL_SECONDS)
    return name


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """Address of one Kafka node."""
    reason = kafka.why_not(SHARES_PROJECT)
    if reason is not None:
        pytest.skip(reason)
    with KafkaCluster(project=SHARES_PROJECT) as cluster:
        yield cluster.bootstrap


@pytest.fixture(params=["penstock", pytest.param("kafka", marks=pytest.mark.compat)])
def at(request: pytest.FixtureRequest) -> str:
    """Address of the server."""
    name = "bootstrap" if request.param == "penstock" else "kafka_bootstrap"
    address: str = request.getfixturevalue(name)
    return address


@pytest.fixture
def shared(at: str, name: str) -> str:
    """A new topic, and a share group of the same name that begins at its beginning."""
    create_shared(at, name)
    configure_group(at, name)
    return name


def create_shared(at: str, name: str) -> None:
    """Create a topic; returns when it is there."""
    admin = AdminClient({"bootstrap.servers": at})
    admin.create_topics([NewTopic(name, SHARE_PARTITIONS, 1)])[name].result(UNTIL_SECONDS)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A local Spark session with the jars of Spark's own Kafka connector."""
    jars = jars_or_skip("spark-kafka")
    sql = pytest.importorskip("pyspark.sql")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(str(jar) for jar in jars))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
