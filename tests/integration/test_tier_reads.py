"""Nodes that free their disks of what the store has: stock clients read all of it all the same."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
)

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import (
    COUNT,
    SMALL_BATCHES,
    TOPIC,
    VALUE_BYTES,
    Directory,
    flip,
    has_deleted,
    is_copied,
    numbers_read,
    offset_at,
    produce,
    settings,
    until,
)

pytestmark = pytest.mark.process

FREED = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
EARLIEST, EARLIEST_LOCAL = -2, -4


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "store")


@pytest.fixture
def node(store: Directory, tmp_path: Path) -> Iterator[NodeProcess]:
    own = settings(store.url, read_ms=2_000)
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


def offset_now(node: NodeProcess, special: int) -> int:
    """Return the same as `offset_at`; -1 while the node does not tell it, as it leads no more.

    For predicates that are looked at again and again.
    """
    with suppress(AssertionError):
        return offset_at(node, special)
    return -1


def is_freed(node: NodeProcess, count: int) -> bool:
    """Whether all that was copied of so many records is in the store alone.

    The last ones are in files that are open, or are not sorted yet: fewer than half of COUNT.
    """
    local_start = offset_now(node, EARLIEST_LOCAL)
    is_enough = local_start >= count - COUNT // 2
    return is_enough and is_copied(node) and local_start == offset_now(node, -6)


def test_what_only_the_store_has_is_read_by_stock_consumers_from_the_beginning(
    node: NodeProcess,
) -> None:
    count = 0
    for _ in range(3):
        count += len(produce(node, TOPIC, count, COUNT))
        until(partial(is_freed, node, count), node)
    assert offset_at(node, EARLIEST) == 0
    assert offset_at(node, EARLIEST_LOCAL) > COUNT // 2
    assert numbers_read(node) == [str(number) for number in range(count)]
    assert metric(node, "penstock_tier_reads_total") >= 1


def consumed(node: NodeProcess, count: int, **more: str) -> list[tuple[int | None, bytes | None]]:
    """Return what a consumer of committed records gets from the beginning, until there are some."""
    own = {"bootstrap.servers": node.bootstrap, "group.id": "g", "enable.auto.commit": False}
    consumer = Consumer({**own, "isolation.level": "read_committed", **more})
    got: list[tuple[int | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + UNTIL_SECONDS
        while len(got) < count:
            assert time.monotonic() < deadline, (len(got), node.log_tail(50))
            for message in consumer.consume(500, 0.5):
                assert message.error() is None, message.error()
                got.append((message.offset(), message.value()))
    finally:
        consumer.close()
    return got


def transact(node: NodeProcess, name: str, first: int, *, is_commit: bool) -> list[bytes]:
    own = {"bootstrap.servers": node.bootstrap, "batch.size": 50_000}
    producer = Producer({**own, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    values = [b"%s-%d." % (name.encode(), at) + bytes(2_000) for at in range(first, first + 150)]
    for value in values:
        producer.produce(TOPIC, value, partition=0)
    producer.flush()
    if is_commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    return values


def test_aborted_transactions_stay_aborted_where_only_the_store_has_them(
    node: NodeProcess,
) -> None:
    wanted: list[bytes] = []
    for round_number in range(3):
        transact(node, "gone", round_number, is_commit=False)
        wanted += transact(node, "kept", round_number, is_commit=True)
    wanted += produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node, 6 * 150 + COUNT), node)
    assert offset_at(node, EARLIEST_LOCAL) > 6 * 150
    assert [value for _, value in consumed(node, len(wanted))] == wanted


def test_look_ups_by_time_find_what_only_the_store_has(node: NodeProcess) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, **SMALL_BATCHES})
    begin = int(time.time()) * 1_000 - 86_400_000
    for at in range(COUNT):
        producer.produce(TOPIC, bytes(2_000), partition=0, timestamp=begin + 1_000 * at)
    producer.flush()
    produce(node, TOPIC, COUNT, COUNT)
    until(partial(is_freed, node, 2 * COUNT), node)
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
    try:
        for at in (0, 1, 77, COUNT - 1):
            asked = TopicPartition(TOPIC, 0, begin + 1_000 * at - 500)
            (found,) = consumer.offsets_for_times([asked], timeout=UNTIL_SECONDS)
            assert found.offset == at
        asked = TopicPartition(TOPIC, 0, begin + 1_000 * COUNT + 1)
        (found,) = consumer.offsets_for_times([asked], timeout=UNTIL_SECONDS)
        assert found.offset == COUNT, "the first of those that were written just now"
    finally:
        consumer.close()


def test_a_store_that_lies_gives_no_records_and_is_read_again_when_it_is_whole(
    node: NodeProcess, store: Directory
) -> None:
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node, COUNT), node)
    whole = {path: path.read_bytes() for path in store.objects()}
    for path in whole:
        flip(path)
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    got: list[tuple[int | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        deadline = time.monotonic() + UNTIL_SECONDS
        while metric(node, "penstock_tier_read_failures_total") < 5:
            assert time.monotonic() < deadline
            got += taken(consumer)
        for path, data in whole.items():
            path.write_bytes(data)
        while len(got) < COUNT:
            assert time.monotonic() < deadline, node.log_tail(50)
            got += taken(consumer)
    finally:
        consumer.close()
    assert got == list(enumerate(values))


def taken(consumer: Consumer) -> list[tuple[int | None, bytes | None]]:
    """Return what one poll gives: no record is wrong, and no error is final."""
    got: list[tuple[int | None, bytes | None]] = []
    for message in consumer.consume(500, 0.2):
        assert message.error() is None, message.error()
        got.append((message.offset(), message.value()))
    return got


def test_deleted_records_do_not_come_back_from_the_store_after_a_kill(node: NodeProcess) -> None:
    values = produce(node, TOPIC, 0, COUNT)
    until(partial(is_freed, node, COUNT), node)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    begin = TopicPartition(TOPIC, 0, 77)
    assert admin.delete_records([begin])[begin].result().low_watermark == 77
    assert offset_at(node, EARLIEST) == 77
    node.kill()
    node.start()
    assert told_start(node.bootstrap) == 77, node.log_tail(50)
    assert [number.split(".")[0] for number in numbers_read(node)] == [
        str(number) for number in range(77, len(values))
    ]


def told_start(bootstrap: str) -> int | None:
    """Return the first log start that clients are told, None if they are not in time.

    While the tier's metadata is loaded, they are not. librdkafka's watermarks would be the end,
    twice, where the start is not told: its administrator says of each offset what came.
    """
    place = TopicPartition(TOPIC, 0)
    told: list[int] = []

    def is_told() -> bool:
        admin = AdminClient({"bootstrap.servers": bootstrap})  # one that knows no master of before
        with suppress(KafkaException):
            found = admin.list_offsets({place: OffsetSpec.earliest()}, request_timeout=5)
            told.append(found[place].result().offset)
        return bool(told)

    wait_until(is_told, UNTIL_SECONDS)
    return told[0] if told else None


def test_retention_of_the_whole_takes_from_the_store_what_only_that_has(
    node: NodeProcess, store: Directory
) -> None:
    for first in range(0, 3 * COUNT, COUNT):
        produce(node, TOPIC, first, COUNT)
        until(partial(is_freed, node, first + COUNT), node)
    alter(node, retention_bytes=str(COUNT * VALUE_BYTES))
    until(lambda: offset_now(node, EARLIEST) >= COUNT // 4, node)
    start = offset_at(node, EARLIEST)
    assert start <= offset_at(node, EARLIEST_LOCAL)
    assert numbers_read(node) == [str(number) for number in range(start, 3 * COUNT)]
    until(partial(has_deleted, node), node)
    assert store.read()[0].start_offset <= start


def alter(node: NodeProcess, **configs: str) -> None:
    """Set keys of the topic, as Kafka's tools do. Raises KafkaException."""
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()


def test_a_change_that_would_take_what_only_the_store_has_is_refused(node: NodeProcess) -> None:
    with pytest.raises(KafkaException, match="disable remote storage without deleting"):
        alter(node, remote_storage_enable="false")
    alter(node, local_retention_bytes="-2")
    alter(node, local_retention_bytes="-1")
