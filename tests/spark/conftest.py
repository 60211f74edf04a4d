"""One Spark session and one node for all tests of the room that need them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live_node import LiveNode, running_node
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss2m"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _JVM,
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A local session with two cores that knows the format penstock."""
    from pyspark.sql import SparkSession

    from penstock.spark.source import PenstockDataSource

    root = str(Path(__file__).parents[2])
    paths = [root, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("penstock tests").master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(PenstockDataSource)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node that lives as long as the tests of a file.

    Tests of other files may plant bugs in its classes: it is in the same process.
    """
    with running_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def topics(node: LiveNode) -> Iterator[Topics]:
    """Makes topics and fills them."""
    with Topics(f"127.0.0.1:{node.port}") as made:
        yield made
