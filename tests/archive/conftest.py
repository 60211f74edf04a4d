"""One node for the tests of a file, and topics in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_node import LiveNode, running_node
from tests.spark.topics import Topics


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def topics(node: LiveNode) -> Iterator[Topics]:
    with Topics(f"127.0.0.1:{node.port}") as made:
        yield made


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    path.mkdir()
    return path
