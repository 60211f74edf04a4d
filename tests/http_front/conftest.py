"""A node, a `penstock http` beside it, and a topic for each test."""

from collections.abc import Iterator
from itertools import count as counted

import pytest

from harness.http_front import HttpProcess
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.live_node import LiveNode
from tests.remoting.served import running_remoting_node

_numbers = counted()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("http-node")) as served:
        yield served


@pytest.fixture(scope="module")
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture(scope="module")
def front(
    served: tuple[LiveNode, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpProcess]:
    with HttpProcess(tmp_path_factory.mktemp("http"), [served[1]]) as front:
        yield front
        assert "Traceback" not in front.log(), front.log()


@pytest.fixture
def topic(node: LiveNode) -> str:
    name = f"over-http-{next(_numbers)}"
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2),)))
    return name
