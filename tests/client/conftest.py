"""librdkafka's mock cluster: real TCP brokers that nobody here wrote."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.versions import CLIENT_VERSIONS
from penstock.protocol.api_keys import ApiKey
from tests.client.mock_cluster import MockCluster


@pytest.fixture(scope="session")
def mock() -> Iterator[MockCluster]:
    """Three brokers."""
    found = MockCluster()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _no_failures_of_other_tests(mock: MockCluster) -> None:
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.LIST_OFFSETS):
        mock.forget_failures(key)


@pytest.fixture
def bootstrap(mock: MockCluster) -> str:
    return mock.bootstrap


@pytest.fixture(autouse=True)
def _metadata_versions_the_mock_gets_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Metadata answers from version 9 on have a byte too many at their end."""
    monkeypatch.setitem(CLIENT_VERSIONS, ApiKey.METADATA, (4, 8))


@pytest.fixture
def settings(bootstrap: str) -> ClientSettings:
    return ClientSettings(bootstrap=bootstrap, deadline_ms=3_000, backoff_ms=5)


@pytest.fixture
def cluster(settings: ClientSettings) -> Iterator[Cluster]:
    with Cluster(settings) as opened:
        yield opened


_names = iter(range(1_000_000))


@pytest.fixture
def topic(mock: MockCluster) -> str:
    """A topic of four partitions that no other test uses, on three brokers."""
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
            for _ in range(100):
                if len(found) >= count:
                    break
                found += consumer.consume(count - len(found), timeout=0.2)
            return found
        finally:
            consumer.close()

    return consume
