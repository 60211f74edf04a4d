"""One node for all clients; every test takes topics and groups with names of its own."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NewTopicName = Callable[..., str]


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
