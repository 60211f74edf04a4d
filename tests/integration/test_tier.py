"""Nodes that copy a topic into an object store: what lies there is what stock clients wrote.

The store is read without the nodes: its objects say what they are.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from harness.node import NodeProcess
from harness.tier import Stored, stored
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from penstock.client.connection import Connection
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import decode_response, encode_request
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
            "scrub_bytes_per_second": 64 << 20,
            "scrub_interval_ms": 300,
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


def has_some(store: Directory, count: int) -> bool:
    """Whether that many records are there from the first on: objects are put side by side."""
    found = store.read()
    return bool(found) and found[0].start_offset == 0 and len(found[0].records) >= count


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
        until(partial(is_copied, node), node)  # what has landed is committed after that
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


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 3)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 8]))


def numbers_read(node: NodeProcess) -> list[str]:
    """Return what a stock consumer reads from the beginning: numbers of values."""
    polls = read_all(node.bootstrap, TOPIC, 1)
    return [str(value) for poll in polls for _, value in poll.records]


def is_copied(node: NodeProcess) -> bool:
    has_some = metric(node, "penstock_tier_live_objects") > 0
    return has_some and metric(node, "penstock_tier_waiting_bytes") == 0


def has_deleted(node: NodeProcess) -> bool:
    """Whether objects were deleted and none is left to be: before, the store can not be read."""
    has_begun = metric(node, "penstock_tier_deleted_total") > 0
    return has_begun and metric(node, "penstock_tier_leaving_objects") == 0


def extent_files(node: NodeProcess) -> list[Path]:
    return sorted(node.data.glob("set-*/second/*.extents"))


def is_repaired(node: NodeProcess) -> bool:
    repaired = metric(node, "penstock_second_level_damage_repaired_total")
    return repaired > 0 and metric(node, "penstock_second_level_damaged_files") == 0


def has_failed_to_repair(node: NodeProcess) -> bool:
    return metric(node, "penstock_second_level_damage_failures_total") > 0


def test_a_lone_node_repairs_its_disk_from_the_tier_and_never_with_what_the_store_lies(
    tmp_path: Path,
) -> None:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        count = len(produce(node, TOPIC, 0, COUNT))
        until(partial(has_some, store, COUNT // 2), node)
        until(partial(is_copied, node), node)
        damaged = extent_files(node)[0]
        objects = {path: path.read_bytes() for path in store.objects()}
        for path in objects:
            flip(path)
        flip(damaged)
        until(partial(has_failed_to_repair, node), node)
        assert damaged.exists()
        assert metric(node, "penstock_second_level_damage_repaired_total") == 0
        for path, whole in objects.items():
            path.write_bytes(whole)
        until(partial(is_repaired, node), node)
        assert numbers_read(node) == [str(number) for number in range(count)]


def test_a_deleted_topic_goes_from_the_store_when_its_grace_is_over(tmp_path: Path) -> None:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        create_topic(node.bootstrap, "other", 1, {"remote.storage.enable": "true"})
        produce(node, TOPIC, 0, COUNT)
        values = produce(node, "other", 0, COUNT)
        until(lambda: len(store.read()) == 2, node)
        until(partial(is_copied, node), node)
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.delete_topics([TOPIC])[TOPIC].result()
        until(partial(has_deleted, node), node)
        (found,) = store.read()
        assert found.records == list(enumerate(values))[: len(found.records)]
        assert len(store.objects()) == metric(node, "penstock_tier_live_objects")


def test_the_tier_begins_where_the_log_begins_and_stock_clients_are_told_its_end(
    tmp_path: Path,
) -> None:
    store = Directory(tmp_path / "store")
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        produce(node, TOPIC, 0, COUNT)
        until(partial(has_some, store, COUNT // 2), node)
        until(partial(is_copied, node), node)
        begin = TopicPartition(TOPIC, 0, store.read()[0].end_offset + 1)
        produce(node, TOPIC, COUNT, COUNT)
        until(partial(has_some, store, COUNT + COUNT // 2), node)
        until(partial(is_copied, node), node)
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.delete_records([begin])[begin].result()
        until(partial(has_deleted, node), node)
        (found,) = store.read()
        assert found.start_offset == begin.offset - 1
        assert offset_at(node, -5) == found.end_offset - 1
        assert offset_at(node, -6) == found.end_offset
        assert offset_at(node, -4) == begin.offset


def offset_at(node: NodeProcess, special: int) -> int:
    """Ask as a client that knows all special timestamps."""
    connection = Connection("127.0.0.1", node.port, ClientSettings(bootstrap=node.bootstrap))
    try:
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": special}
        topics = [{"name": TOPIC, "partitions": [asked]}]
        body = {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout_ms": 10_000}
        key, version = ApiKey.LIST_OFFSETS, 11
        connection.send(key, version, encode_request(key, version, body))
        answer = decode_response(key, version, *connection.receive())
    finally:
        connection.close()
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.NONE
    return int(partition.offset)
