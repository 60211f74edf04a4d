"""DescribeProducers: who has written to a partition, as its master remembers them."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.slices import SLICE
from penstock.record.build import Record, build_batch
from tests.kafka.test_admin_handlers_offsets import create, produce_bytes
from tests.live_node import LiveNode, RawClient, running_node


def batch(producer_id: int, epoch: int, sequence: int, records: int = 1) -> bytes:
    plain = [Record(None, b"value", (), 1_000)] * records
    return build_batch(plain, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def describe(client: RawClient, topic: str, *partitions: int) -> list[Any]:
    fields = {"topics": [{"name": topic, "partition_indexes": [*partitions]}]}
    (told,) = client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, fields).topics
    assert told.name == topic
    return [*told.partitions]


def producers(client: RawClient, topic: str) -> list[tuple[int, int, int]]:
    (partition,) = describe(client, topic, 0)
    assert partition.error_code == ErrorCode.NONE
    return [
        (told.producer_id, told.producer_epoch, told.last_sequence)
        for told in partition.active_producers
    ]


def test_each_producer_is_told_with_its_newest_epoch_and_last_sequence(
    node: LiveNode, client: RawClient
) -> None:
    topic, other = create(node), create(node)
    begun_ms = time.time_ns() // 1_000_000
    produce_bytes(client, topic, batch(7, 0, 0, records=3))
    produce_bytes(client, topic, batch(8, 2, 5))
    produce_bytes(client, topic, batch(7, 0, 3, records=2))
    produce_bytes(client, other, batch(9, 0, 0))
    assert producers(client, topic) == [(8, 2, 5), (7, 0, 4)], "longest idle first"
    assert producers(client, other) == [(9, 0, 0)]
    produce_bytes(client, topic, batch(7, 1, 0))
    assert producers(client, topic) == [(8, 2, 5), (7, 1, 0)]
    for told in describe(client, topic, 0)[0].active_producers:
        assert begun_ms <= told.last_timestamp <= time.time_ns() // 1_000_000
        assert (told.coordinator_epoch, told.current_txn_start_offset) == (-1, -1)


def test_batches_without_a_producer_id_are_nobodys(node: LiveNode, client: RawClient) -> None:
    topic = create(node)
    produce_bytes(client, topic, build_batch([Record(None, b"value", (), 1_000)]))
    assert producers(client, topic) == []


def test_each_partition_that_can_not_be_told_of_says_why(node: LiveNode, client: RawClient) -> None:
    topic = create(node)
    here, again, missing = describe(client, topic, 0, 0, 1)
    assert here.error_code == ErrorCode.NONE
    assert again.error_code == ErrorCode.INVALID_REQUEST, "each is listed once"
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    both = {"topics": [{"name": one, "partition_indexes": [0]} for one in (topic, create(node))]}
    told = client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, both).topics
    assert [one.partitions[0].error_code for one in told] == [ErrorCode.NONE] * 2
    (absent,) = describe(client, "no-such-topic", 0)
    assert absent.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not absent.active_producers


def test_a_list_longer_than_a_slice_of_the_answer_is_told_whole(
    node: LiveNode, client: RawClient
) -> None:
    topic = create(node)
    for producer_id in range(SLICE + 10):
        produce_bytes(client, topic, batch(producer_id, 0, producer_id))
    expected = [(producer_id, 0, producer_id) for producer_id in range(SLICE + 10)]
    assert producers(client, topic) == expected


def test_what_a_master_remembered_it_tells_after_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        topic = create(node)
        produce_bytes(client, topic, batch(7, 3, 0, records=3))
        (before,) = describe(client, topic, 0)
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        assert producers(client, topic) == [(7, 3, 2)]
        (after,) = describe(client, topic, 0)
    assert after.active_producers == before.active_producers
