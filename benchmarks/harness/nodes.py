"""Nodes as the questions need them."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.node import NodeProcess, SettingsOf

PAGE_CACHE: SettingsOf = {"log": {"flush_policy": "async"}}
"""Acknowledge what is in the page cache, as the compared systems do unless told otherwise."""

FSYNC: SettingsOf = {"log": {"flush_policy": "sync"}}
"""Acknowledge what is on the disk; the default."""


@contextlib.contextmanager
def temporary_node(settings: SettingsOf) -> Iterator[NodeProcess]:
    """Yield a running node with an empty data directory that is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        NodeProcess(Path(directory), settings=settings) as node,
    ):
        yield node
