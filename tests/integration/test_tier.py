"""Nodes that copy a topic into an object store: what lies there is what stock clients wrote.

The store is read without the nodes: its objects say what they are.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.tier import Stored, stored
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.runtime.io.object_store import open_directory
from tests.integration.clients import PATIENT, check_all_acked, send
from tests.integration.test_housekeeper import metric

pytestmark = pytest.mark.process

SEGMENT = 256 << 10
TOPIC = "kept"
VALUE_BYTES = 2_000
COUNT = 600
SMALL_BATCHES = {**PATIENT, "batch.size": 50_000}


def settings(url: str, **more: object) -> dict[str, dict[str, object]]:
    return {
        "log": {
            "segment_bytes": SEGMENT,
            "first_segment_bytes": SEGMENT,
            "staging_bytes": 128 << 10,
            "checkpoint_interval_ms": 0,
            "recycle_count": 0,
            "reserve_bytes": 0,
            "level0_bytes": 0,
        },
        "broker": {"housekeeping_interval_ms": 300},
        "controller": {"tiered_topics": True},
        "tier": {
            "url": url,
            "look_ms": 200,
            "object_bytes": 300_000,
            "upload_ms": 5_000,
            "skew_ms": 1_000,
            "lease_ms": 1_000,
            "grace_ms": 1_500,
            **more,
        },
    }


class Directory:
    """A store of files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def read(self) -> list[Stored]:
        """Return the partitions that have records, whatever cluster they are of."""
        clusters = [one.name for one in self.path.iterdir() if (one / "sets").is_dir()]
        if not clusters:
            return []
        (cluster,) = clusters
        return list(stored(open_directory(self.path), bytes.fromhex(cluster)).values())

    def objects(self) -> list[Path]:
        return list(self.path.glob("*/sets/*/*/*.extents"))


def produce(node: NodeProcess, topic: str, first: int, count: int) -> list[bytes]:
    values = [b"%d." % number + os.urandom(VALUE_BYTES) for number in range(first, first + count)]
    check_all_acked(send(node.bootstrap, topic, values, settings=SMALL_BATCHES), values)
    return values


def has_some(store: Directory, count: int, start: int = 0) -> bool:
    found = store.read()
    return bool(found) and len(found[0].records) >= count and found[0].start_offset >= start


def until(done: Callable[[], bool], node: NodeProcess) -> None:
    assert wait_until(done, UNTIL_SECONDS), node.log_file.read_text()[-3000:]


def test_a_topic_is_copied_as_it_was_written_and_one_without_the_key_is_not(tmp_path: Path) -> None:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        create_topic(node.bootstrap, "local", 1)
        produce(node, "local", 0, COUNT)
        values = produce(node, TOPIC, 0, COUNT)
        until(partial(has_some, store, COUNT // 2), node)
        (found,) = store.read()
        assert found.start_offset == 0
        assert found.records == list(enumerate(values))[: len(found.records)]
        assert metric(node, "penstock_tier_objects_total") >= 1


def test_copying_goes_on_behind_a_kill_without_a_gap(tmp_path: Path) -> None:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        values = produce(node, TOPIC, 0, COUNT)
        until(partial(has_some, store, 1), node)
        node.kill()
        node.start()
        values += produce(node, TOPIC, COUNT, COUNT)
        until(partial(has_some, store, COUNT + COUNT // 2), node)
        (found,) = store.read()
        assert found.records == list(enumerate(values))[: len(found.records)]
