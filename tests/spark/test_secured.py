"""The source, the sink and `penstock land` in a closed cluster: TLS, SCRAM, and rules."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.access.rules import AclOperation, AclResource
from penstock.cli.connect import CLIENT_CONFIG_VARIABLE
from penstock.spark.exactly_once.driver import PREFIX
from tests.access.certificates import Authority
from tests.spark.landing import LandProcess
from tests.spark.secured import ADMIN, JOB, SECRET, SECRETS, Closed, closed_node
from tests.spark.stock import read_committed
from tests.spark.tables import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
COUNT = 30


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    with closed_node(tmp_path_factory.mktemp("closed")) as node:
        yield node


def _filled(closed: Closed, count: int = COUNT) -> str:
    topic = closed.topics.make()
    closed.topics.fill(topic, [b"%d" % n for n in range(count)])
    return topic


def _read(spark: "SparkSession", options: dict[str, str], topic: str) -> "DataFrame":
    return spark.read.format("penstock").options(**options, subscribe=topic).load()


def _write(spark: "SparkSession", options: dict[str, str], **more: str) -> None:
    rows = spark.range(COUNT).selectExpr("string(id) as value")
    rows.write.format("penstock").options(**options, **more).mode("append").save()


def _jobs(spark: "SparkSession") -> int:
    """Return how many jobs have begun: what the driver refuses begins none."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


def _within(directory: Path, secret: str) -> list[Path]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files, "nothing was looked at"
    return [path for path in files if secret.encode() in path.read_bytes()]


def test_a_stream_of_a_user_copies_a_topic_exactly_once_and_shows_no_secret(
    spark: "SparkSession", closed: Closed, tmp_path: Path
) -> None:
    source, target = _filled(closed), closed.topics.make()
    closed.allow(READ, source)
    closed.allow(WRITE, target)
    closed.allow_exactly_once()
    options = closed.options()
    reading = spark.readStream.format("penstock").options(**options, subscribe=source)
    frame = reading.options(startingOffsets="earliest", maxOffsetsPerTrigger="10").load()
    query = (
        frame.select("key", "value")
        .writeStream.format("penstock")
        .options(**options, topic=target, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    login = closed.login(ADMIN).librdkafka()
    counted = read_committed(closed.bootstrap, target, login=login)
    assert counted == Counter(b"%d" % n for n in range(COUNT))
    plan = query._jsq.explainInternal(True)
    shown = plan + json.dumps([str(one) for one in query.recentProgress]) + str(query.status)
    assert "penstock" in shown
    assert SECRET not in shown
    assert _within(tmp_path, SECRET) == []


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_is_written_and_read_by_a_file_as_commands_take_it(
    spark: "SparkSession", closed: Closed, delivery: str
) -> None:
    topic = closed.topics.make()
    closed.allow(READ, topic)
    closed.allow(WRITE, topic)
    closed.allow_exactly_once()
    options = {"bootstrap": closed.bootstrap, "clientConfig": str(closed.properties(JOB))}
    _write(spark, options, topic=topic, delivery=delivery)
    frame = _read(spark, options, topic)
    plan = frame._jdf.queryExecution().toString()
    assert SECRET not in plan
    assert {bytes(row.value) for row in frame.collect()} == {b"%d" % n for n in range(COUNT)}


def _refused(spark: "SparkSession", options: dict[str, str], topic: str, *words: str) -> None:
    """Assert that reading and writing end on the driver, with these words and without a secret."""
    before = _jobs(spark)
    stream = spark.readStream.format("penstock").options(**options, subscribe=topic)

    def read_stream() -> None:
        stream.load().writeStream.format("noop").trigger(once=True).start().awaitTermination()

    for action in (
        lambda: _read(spark, options, topic).collect(),
        lambda: _write(spark, options, topic=topic),
        lambda: _write(spark, options, topic=topic, delivery="at-least-once"),
        read_stream,
    ):
        with pytest.raises(Exception, match=words[0]) as refused:
            action()
        said = str(refused.value)
        assert [word for word in words if word not in said] == []
        assert SECRET not in said
    assert _jobs(spark) == before


def test_a_wrong_password_is_told_by_the_driver_with_its_option_and_the_broker(
    spark: "SparkSession", closed: Closed, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(SECRETS[JOB][:-1])
    words = (
        "Authentication failed",
        closed.bootstrap,
        f"sasl.username={JOB}",
        f"sasl.password.file={wrong}",
    )
    options = closed.options(kafka_sasl_password_file=str(wrong))
    _refused(spark, options, _filled(closed), *words)


def test_another_authority_is_told_by_the_driver_with_its_option_and_the_broker(
    spark: "SparkSession", closed: Closed, tmp_path: Path
) -> None:
    other = Authority(tmp_path).file
    words = ("certificate is not accepted", closed.bootstrap, f"ssl.ca.location, {other}")
    _refused(spark, closed.options(kafka_ssl_ca_location=other), _filled(closed), *words)


def test_a_plain_client_is_told_by_the_driver_that_the_port_has_tls(
    spark: "SparkSession", closed: Closed
) -> None:
    words = (f"{closed.bootstrap} has TLS", "security.protocol is PLAINTEXT")
    _refused(spark, {"bootstrap": closed.bootstrap}, _filled(closed), *words)


def test_a_topic_that_may_be_described_alone_is_refused_by_the_driver(
    spark: "SparkSession", closed: Closed
) -> None:
    topic = _filled(closed)
    before, options = _jobs(spark), closed.options()
    closed.allow_exactly_once()
    with pytest.raises(Exception, match=f"User:{JOB} is not permitted: .*{topic}.*Read on the"):
        _read(spark, options, topic).collect()
    closed.allow(DESCRIBE, topic)
    with pytest.raises(Exception, match=f"User:{JOB} is not permitted to read topic {topic}"):
        _read(spark, options, topic).collect()
    with pytest.raises(Exception, match=f"User:{JOB} is not permitted to write topic {topic}"):
        _write(spark, options, topic=topic)
    assert _jobs(spark) == before


def test_a_task_that_may_not_write_tells_the_topic_and_the_user(
    spark: "SparkSession", closed: Closed
) -> None:
    topic = _filled(closed)
    closed.allow(DESCRIBE, topic)
    closed.allow_exactly_once()
    rows = spark.range(1).selectExpr("string(id) as value", f"'{topic}' as topic")
    writer = rows.write.format("penstock").options(**closed.options()).mode("append")
    with pytest.raises(Exception, match=f"User:{JOB} is not permitted: .*{topic}.*Write on the"):
        writer.save()


def test_exactly_once_needs_its_transactional_ids_and_the_driver_says_so(
    spark: "SparkSession", tmp_path: Path
) -> None:
    with closed_node(tmp_path) as closed:
        topic = closed.topics.make()
        closed.allow(WRITE, topic)
        before, options = _jobs(spark), closed.options()
        with pytest.raises(Exception, match=f"User:{JOB} is not permitted: .*{PREFIX}") as refused:
            _write(spark, options, topic=topic)
        assert "transactional-id:penstock-spark-*" in str(refused.value)
        assert _jobs(spark) == before
        closed.allow(DESCRIBE, f"{PREFIX}*", AclResource.TRANSACTIONAL_ID)
        _write(spark, options, topic=topic, delivery="at-least-once")
        assert closed.topics.end(topic) == COUNT


def test_land_comes_in_by_the_client_configuration_and_shows_no_secret(
    closed: Closed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = _filled(closed)
    table = tmp_path / "table"
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(closed.properties(JOB)))
    refused = LandProcess(table, topic, closed.bootstrap)
    assert refused.wait() == 1
    assert f"User:{JOB} is not permitted" in refused.log()
    assert not table.exists()
    closed.allow(READ, topic)
    landed = LandProcess(table, topic, closed.bootstrap)
    assert landed.wait() == 0, landed.log()
    values = read_table("parquet", table).column("value").to_pylist()
    assert sorted(values) == sorted(b"%d" % n for n in range(COUNT))
    assert _within(tmp_path, SECRET) == []
