"""A node and a client of it, for tests of single answers that need no settings of their own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live_node import LiveNode, RawClient, running_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with running_node(tmp_path) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client
