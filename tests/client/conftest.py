"""librdkafka's mock cluster: real TCP brokers that nobody here wrote."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.versions import CLIENT_VERSIONS
from penstock.protocol.api_keys import ApiKey
from tests.client.mock_cluster import MockCluster

MOCK_METADATA_VERSIONS = (4, 8)
"""Its Metadata answers from version 9 on have a byte too many at their end."""


@pytest.fixture(scope="session")
def mock() -> Iterator[MockCluster]:
    """Three brokers."""
    found = MockCluster()
    yield found
    found.close()


@pytest.fixture
def mock_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockCluster]:
    """One broker for one test: after `delay_next` it would not heed `fail_next` any more."""
    monkeypatch.setitem(CLIENT_VERSIONS, ApiKey.METADATA, MOCK_METADATA_VERSIONS)
    found = MockCluster(1)
    yield found
    found.close()


@pytest.fixture
def bootstrap(mock: MockCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its addresses; what other tests told it to do wrong is forgotten."""
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS):
        mock.forget_failures(key)
    monkeypatch.setitem(CLIENT_VERSIONS, ApiKey.METADATA, MOCK_METADATA_VERSIONS)
    return mock.bootstrap


@pytest.fixture
def settings(bootstrap: str) -> ClientSettings:
    return ClientSettings(bootstrap=bootstrap, deadline_ms=120_000, backoff_ms=5)


@pytest.fixture
def cluster(settings: ClientSettings) -> Iterator[Cluster]:
    with Cluster(settings) as opened:
        yield opened


_names = iter(range(1_000_000))


@pytest.fixture
def topic(mock: MockCluster, bootstrap: str) -> str:
    """A topic of four partitions that no other test uses, on three brokers."""
    assert bootstrap
    name = f"topic-{next(_names)}"
    mock.create_topic(name, 4)
    return name


@pytest.fixture
def stock_consume(bootstrap: str) -> Callable[[str, int], list[confluent_kafka.Message]]:
    """Read `count` messages of a topic with a stock consumer."""

    def consume(topic: str, count: int) -> list[confluent_kafka.Message]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"group-{topic}",
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "log_level": 2,
            }
        )
        try:
            consumer.assign(
                [confluent_kafka.TopicPartition(topic, number, 0) for number in range(4)]
            )
            found: list[confluent_kafka.Message] = []
            for _ in range(1000):
                if len(found) >= count:
                    break
                found += consumer.consume(count - len(found), timeout=0.2)
            return found
        finally:
            consumer.close()

    return consume
