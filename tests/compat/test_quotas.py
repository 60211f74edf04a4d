"""Quotas with stock clients: librdkafka is told delays and obeys, and Kafka's tool sets them."""

import os
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.client.cluster import Cluster
from penstock.client.quotas import Quotas
from penstock.client.settings import ClientSettings
from penstock.quotas.entities import entity_of
from tests.compat.java_tools import tool

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

VALUE_BYTES = 10_000
VALUES = 10
THROTTLED, DELAYS = "penstock_quota_throttled_total", "penstock_quota_delay_seconds_total"
RATE = 20_000
"""Two values a second: what is below takes five seconds, of which two thirds are delays."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("quotas") / "node") as running:
        yield running


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    name = str(request.node.name)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(UNTIL_SECONDS)
    return name


def limit(node: NodeProcess, client_id: str, **values: float | None) -> None:
    with Cluster(ClientSettings(bootstrap=node.bootstrap)) as cluster:
        Quotas(cluster).alter(entity_of([("client-id", client_id)]), values)


def metric(node: NodeProcess, name: str, quota: str) -> float:
    url = f"http://127.0.0.1:{node.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=UNTIL_SECONDS) as response:
        page = response.read().decode()
    (line,) = [one for one in page.splitlines() if one.startswith(f'{name}{{quota="{quota}"}}')]
    return float(line.split()[-1])


def producer(node: NodeProcess, client_id: str, delays_s: list[float]) -> Producer:
    """Sends one request after the other, each of one value."""
    return Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": client_id,
            "batch.num.messages": 1,
            "linger.ms": 0,
            "max.in.flight": 1,
            "throttle_cb": lambda event: delays_s.append(event.throttle_time),
        }
    )


def taken(reading: Consumer) -> bytes:
    """Return the next value; fails with the error that the consumer tells in its place."""
    message = reading.poll(UNTIL_SECONDS)
    assert message is not None, "nothing came"
    assert message.error() is None, message.error()
    return bytes(message.value() or b"")


@pytest.mark.process
def test_librdkafka_is_told_the_delays_of_what_it_produces_and_consumes(
    node: NodeProcess, topic: str
) -> None:
    limit(node, "slow", producer_byte_rate=RATE, consumer_byte_rate=RATE)
    before = [metric(node, name, "producer_byte_rate") for name in (THROTTLED, DELAYS)]
    told: list[float] = []
    sending = producer(node, "slow", told)
    values = [os.urandom(VALUE_BYTES) for _ in range(VALUES)]
    for value in values:
        sending.produce(topic, value)
    assert sending.flush(UNTIL_SECONDS) == 0
    count = metric(node, THROTTLED, "producer_byte_rate") - before[0]
    delays_s = metric(node, DELAYS, "producer_byte_rate") - before[1]
    assert count >= VALUES // 2
    assert len([one for one in told if one > 0]) >= VALUES // 2
    assert sum(told) == pytest.approx(delays_s, abs=0.001 * VALUES)
    # Two values are a second's worth; what the delays sum up to is the time of the others, less
    # what passes between requests.
    assert delays_s <= (VALUES + 1) * (VALUE_BYTES + 200) / RATE

    fetched_told: list[float] = []
    reading = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "slow",
            "group.id": "g",
            "throttle_cb": lambda event: fetched_told.append(event.throttle_time),
        }
    )
    with closing(reading):
        reading.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        got = [taken(reading) for _ in values]
    assert [values.index(value) for value in got] == list(range(VALUES))
    assert metric(node, THROTTLED, "consumer_byte_rate") >= 2
    assert any(one > 0 for one in fetched_told)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_is_told_the_delay_of_what_it_produces(
    node: NodeProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    limit(node, "slow-python", producer_byte_rate=RATE)
    sending = KafkaProducer(bootstrap_servers=node.bootstrap, client_id="slow-python")
    with closing(sending):
        for _ in range(4):
            sending.send(topic, os.urandom(VALUE_BYTES)).get(UNTIL_SECONDS)
    assert "ProduceResponse throttled by broker" in caplog.text


@pytest.mark.process
def test_a_muted_client_holds_nobody_up(node: NodeProcess, topic: str) -> None:
    """The delay is minutes: the value behind it is still not sent when the others are done."""
    limit(node, "mute", producer_byte_rate=100)
    delivered: list[str] = []
    muted, free = producer(node, "mute", []), producer(node, "free", [])

    def send(who: Producer, name: str, size: int) -> None:
        who.produce(topic, b"v" * size, on_delivery=lambda *_: delivered.append(name))

    send(muted, "first", 100_000)
    wait_until(lambda: muted.poll(0.05) >= 0 and "first" in delivered, UNTIL_SECONDS)
    send(muted, "behind", 10)
    for number in range(20):
        send(free, f"free-{number}", 1_000)
    assert free.flush(UNTIL_SECONDS) == 0
    muted.poll(0)
    assert len(delivered) == 21
    assert "behind" not in delivered
    muted.purge()


@pytest.mark.process
@pytest.mark.compat
def test_kafkas_own_tool_sets_describes_and_deletes_quotas(node: NodeProcess) -> None:
    def configs(*arguments: str) -> str:
        return tool("kafka-configs", "--bootstrap-server", node.bootstrap, *arguments)

    user = ("--entity-type", "users", "--entity-name", "alice")
    whose = (*user, "--entity-type", "clients", "--entity-default")
    configs("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=2.5", *whose)
    everybody = ("--entity-type", "ips", "--entity-default")
    configs("--alter", "--add-config", "connection_creation_rate=1000", *everybody)
    told = configs("--describe", *whose)
    assert "producer_byte_rate=1024.0" in told
    assert "request_percentage=2.5" in told
    assert "connection_creation_rate=1000.0" in configs("--describe", *everybody)
    with Cluster(ClientSettings(bootstrap=node.bootstrap)) as cluster:
        found = Quotas(cluster).list()
    entity = entity_of([("user", "alice"), ("client-id", None)])
    assert found[entity] == {"producer_byte_rate": 1024.0, "request_percentage": 2.5}
    configs("--alter", "--delete-config", "producer_byte_rate,request_percentage", *whose)
    configs("--alter", "--delete-config", "connection_creation_rate", *everybody)
    assert "producer_byte_rate" not in configs("--describe", *whose)
