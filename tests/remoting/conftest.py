"""A node, two clients in plain frames, and a topic; modules may have others of these names."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count as counted

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.pop.pops import Pops
from tests.live_node import LiveNode
from tests.remoting.served import Remote, running_remoting_node

_numbers = counted()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("remoting")) as served:
        yield served


@pytest.fixture(scope="module")
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture
def remote(served: tuple[LiveNode, str]) -> Iterator[Remote]:
    with closing(Remote(served[1])) as remote:
        yield remote


@pytest.fixture
def other(served: tuple[LiveNode, str]) -> Iterator[Remote]:
    with closing(Remote(served[1])) as remote:
        yield remote


@pytest.fixture
def pops(node: LiveNode) -> Pops:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front.desk.pops


@pytest.fixture
def topic(node: LiveNode) -> str:
    name = f"popped-{next(_numbers)}"
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2),)))
    return name
