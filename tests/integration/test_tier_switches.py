"""Copying is disabled, the store is given up, and both come back: what stock clients see of it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.node import NodeProcess
from harness.workload import create_topic
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import (
    COUNT,
    TOPIC,
    VALUE_BYTES,
    Directory,
    numbers_read,
    offset_at,
    produce,
    settings,
    until,
)
from tests.integration.test_tier_reads import (
    EARLIEST,
    EARLIEST_LOCAL,
    FREED,
    alter,
    is_freed,
    offset_now,
)

pytestmark = pytest.mark.process

LAST_COPIED = -5


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "store")


@pytest.fixture
def node(store: Directory, tmp_path: Path) -> Iterator[NodeProcess]:
    own = settings(store.url, read_ms=2_000)
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


HALF_BYTES = COUNT * VALUE_BYTES // 2
"""What is copied of so many records, or sorted, leaves less than half of them elsewhere."""


def kept_bytes(node: NodeProcess) -> float:
    """Return how much is kept where it would be copied from."""
    return metric(node, "penstock_second_level_needed_bytes")


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_without_copies_what_is_there_is_read_and_expires_and_copying_comes_back(
    store: Directory, node: NodeProcess
) -> None:
    count = len(produce(node, TOPIC, 0, COUNT))
    until(partial(is_freed, node, count), node)
    with pytest.raises(KafkaException, match="must be set to the identical value because there"):
        alter(node, remote_log_copy_disable="true")
    alter(node, remote_log_copy_disable="true", local_retention_bytes="-2")
    last, local_start = offset_at(node, LAST_COPIED), offset_at(node, EARLIEST_LOCAL)
    objects = store.objects()
    until(lambda: kept_bytes(node) < HALF_BYTES, node)
    count += len(produce(node, TOPIC, count, COUNT))
    until(lambda: kept_bytes(node) > HALF_BYTES, node)
    assert metric(node, "penstock_tier_waiting_bytes") == 0
    assert numbers_read(node) == numbers(0, count)
    assert offset_at(node, EARLIEST_LOCAL) == local_start, "disks keep what the store has not"
    alter(node, retention_ms="1")
    until(lambda: not store.objects(), node)
    until(lambda: offset_now(node, EARLIEST) > last + 1, node)
    assert objects
    alter(node, retention_ms="-1", remote_log_copy_disable="false", local_retention_bytes="1")
    start = offset_at(node, EARLIEST)
    count += len(produce(node, TOPIC, count, COUNT))
    until(partial(is_freed, node, count), node)
    assert offset_at(node, EARLIEST) == start
    assert numbers_read(node) == numbers(start, count)


def test_a_store_that_is_given_up_is_emptied_and_may_come_back(
    store: Directory, node: NodeProcess
) -> None:
    count = len(produce(node, TOPIC, 0, COUNT))
    until(partial(is_freed, node, count), node)
    local_start = offset_at(node, EARLIEST_LOCAL)
    with pytest.raises(KafkaException, match="invalid to disable remote storage without deleting"):
        alter(node, remote_storage_enable="false")
    assert offset_at(node, EARLIEST) == 0
    alter(node, remote_storage_enable="false", remote_log_delete_on_disable="true")
    until(lambda: offset_now(node, EARLIEST) == local_start, node)
    node.kill()
    node.start()
    until(lambda: not store.objects(), node)
    assert numbers_read(node) == numbers(local_start, count)
    alter(node, remote_storage_enable="true")
    count += len(produce(node, TOPIC, count, COUNT))
    until(partial(is_freed, node, count), node)
    assert offset_at(node, EARLIEST_LOCAL) > local_start
    assert offset_at(node, EARLIEST) == local_start
    assert numbers_read(node) == numbers(local_start, count)


def test_what_was_given_up_stays_so_when_the_store_is_wanted_again_at_once(
    store: Directory, node: NodeProcess
) -> None:
    """The store still has all of it by then."""
    count = len(produce(node, TOPIC, 0, COUNT))
    until(partial(is_freed, node, count), node)
    local_start = offset_at(node, EARLIEST_LOCAL)
    before = set(store.objects())
    alter(node, remote_storage_enable="false", remote_log_delete_on_disable="true")
    alter(node, remote_storage_enable="true")
    assert offset_at(node, EARLIEST) == local_start
    until(lambda: not before & set(store.objects()), node)
    assert numbers_read(node) == numbers(local_start, count)
    count += len(produce(node, TOPIC, count, COUNT))
    until(partial(is_freed, node, count), node)
    node.kill()
    node.start()
    until(lambda: offset_now(node, EARLIEST) == local_start, node)
    assert numbers_read(node) == numbers(local_start, count)


def test_what_was_deleted_before_local_limits_came_stays_deleted(
    store: Directory, tmp_path: Path
) -> None:
    """The tier still has it by then, up to where a run ends."""
    own = settings(store.url, read_ms=2_000, look_ms=5_000)
    with NodeProcess(tmp_path / "slow", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        count = len(produce(node, TOPIC, 0, COUNT))
        until(lambda: offset_now(node, LAST_COPIED) > 0, node)
        start = offset_at(node, LAST_COPIED) + 1
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        deleted = admin.delete_records([TopicPartition(TOPIC, 0, start)])
        assert [one.result().low_watermark for one in deleted.values()] == [start]
        alter(node, local_retention_bytes="1")
        assert offset_at(node, EARLIEST) == start
        count += len(produce(node, TOPIC, count, COUNT))
        until(partial(is_freed, node, count), node)
        assert offset_at(node, EARLIEST_LOCAL) > start
        assert offset_at(node, EARLIEST) == start
        assert numbers_read(node) == numbers(start, count)
        node.kill()
        node.start()
        until(lambda: offset_now(node, EARLIEST) == start, node)
