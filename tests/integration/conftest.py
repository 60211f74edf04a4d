"""Fixtures of the process tests: nodes that are always ended, disks that are always taken away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.loop_disk import why_not
from harness.node import NodeProcess


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A running node on free ports with an empty data directory."""
    with NodeProcess(tmp_path / "node") as running:
        yield running


@pytest.fixture
def loop_disks() -> None:
    """Skip, with the reason, where no loop device can be had."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
