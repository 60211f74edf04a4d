"""What docs/operations/spark.md shows does what the page says, word by word."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.login import PROTOCOL
from penstock.cli.connect import CLIENT_CONFIG_VARIABLE
from tests.integration.layouts import run_penstock
from tests.live_node import LiveNode
from tests.spark.secured import ADMIN, JOB, Closed, closed_node
from tests.spark.stock import read_committed
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
PAGE = (Path(__file__).parents[2] / "docs/operations/spark.md").read_text()
VALUES = [b"%d" % number for number in range(20)]


def shown(language: str, word: str) -> str:
    """Return the one block of the page that has a word."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    return str(block)


def run(block: str, places: dict[str, str], **names: Any) -> dict[str, Any]:
    """Run a block with the reader's own places in it; return what it has named."""
    for place, own in places.items():
        assert place in block
        block = block.replace(place, own)
    exec(compile(block, "docs/operations/spark.md", "exec"), names)
    return names


def test_a_batch_and_a_stream_are_read_and_written_as_the_page_shows(
    spark: "SparkSession", node: LiveNode, topics: Topics, tmp_path: Path
) -> None:
    topics.admin.create_topic("orders", partitions=1)
    broker = {"log-1:9092": f"127.0.0.1:{node.port}"}
    reading = run(shown("python", "penstock.spark.register"), broker, spark=spark)
    assert reading["live"].isStreaming
    source = topics.make()
    topics.fill(source, VALUES)
    options = {"bootstrap": topics.bootstrap, "subscribe": source}
    stream = spark.readStream.format("penstock").options(**options, startingOffsets="earliest")
    writing = run(
        shown("python", "rows_of_a_stream"),
        broker | {"/checkpoints/orders": str(tmp_path)},
        rows=spark.range(5).selectExpr("concat('row ', id) as value"),
        rows_of_a_stream=stream.load().select("value"),
    )
    writing["query"].processAllAvailable()
    writing["query"].stop()
    expected = Counter([*VALUES, *(b"row %d" % number for number in range(5))])
    assert Counter(bytes(row.value) for row in reading["orders"].collect()) == expected
    assert read_committed(topics.bootstrap, "orders") == expected


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    with closed_node(tmp_path_factory.mktemp("closed")) as node:
        for topic in ("orders", "copies"):
            node.topics.admin.create_topic(topic, partitions=1)
        node.topics.fill("orders", VALUES)
        yield node


def copy(spark: "SparkSession", closed: Closed, user: str) -> None:
    block = shown("python", "sasl.password.file")
    assert f'"{PROTOCOL}"' in block
    directory = "/…/penstock-data/security"
    own = {
        "127.0.0.1:9092": closed.bootstrap,
        f"{directory}/authority.pem": str(closed.directory / "authority.pem"),
        f"{directory}/admin.password": str(closed.directory / user),
        '"admin"': f'"{user}"',
    }
    run(block, own, spark=spark)


def test_a_closed_cluster_is_read_and_written_as_the_page_shows(
    spark: "SparkSession", closed: Closed
) -> None:
    login = closed.login(ADMIN).librdkafka()
    before = read_committed(closed.bootstrap, "copies", login=login)
    copy(spark, closed, ADMIN)
    assert read_committed(closed.bootstrap, "copies", login=login) - before == Counter(VALUES)


def test_a_job_needs_the_rules_that_the_page_gives_it_and_no_others(
    spark: "SparkSession", closed: Closed
) -> None:
    with pytest.raises(Exception, match=f"User:{JOB} is not permitted"):
        copy(spark, closed, JOB)
    for line in shown("sh", "penstock-spark-*").splitlines():
        penstock, *command = shlex.split(line)
        assert penstock == "penstock"
        config = ("--client-config", str(closed.properties(ADMIN)))
        code, told = run_penstock(*config, *command, "-b", closed.bootstrap)
        assert code == 0, told
        assert CLIENT_CONFIG_VARIABLE not in os.environ, "tests of other files would have it"
    login = closed.login(ADMIN).librdkafka()
    before = read_committed(closed.bootstrap, "copies", login=login)
    copy(spark, closed, JOB)
    assert read_committed(closed.bootstrap, "copies", login=login) - before == Counter(VALUES)
