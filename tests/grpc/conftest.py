"""A node with the port, clients of it, and a topic of the test's own.

The client's package makes a directory for its logs in HOME as soon as it is imported.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from unittest.mock import patch

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.live_node import LiveNode

with (
    tempfile.TemporaryDirectory(prefix="penstock-grpc-") as _home,
    patch.dict(os.environ, {"HOME": _home}),
):
    from tests.grpc.receiving import Member
    from tests.grpc.served import Caller, running_grpc_node

PARTITIONS = 3
"""Of a topic, where a module of tests does not say how many."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_grpc_node(tmp_path_factory.mktemp("grpc")) as served:
        yield served


@pytest.fixture(scope="module")
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture
def caller(served: tuple[LiveNode, str]) -> Iterator[Caller]:
    with closing(Caller(served[1])) as caller:
        yield caller


@pytest.fixture
def topic(node: LiveNode, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name))}"
    partitions = getattr(request.module, "PARTITIONS", PARTITIONS)
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=partitions),)))
    return name


@pytest.fixture
def one(caller: Caller) -> Member:
    return Member(caller)


@pytest.fixture
def other(caller: Caller) -> Member:
    return Member(caller, "two@2")
