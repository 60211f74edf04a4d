"""Where partitions begin and end: ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.build import Record, build_batch
from tests.live_node import LiveNode, RawClient, running_node

_numbers = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("offsets")) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    client = node.connect()
    yield client
    client.close()


@pytest.fixture
def topic(node: LiveNode) -> str:
    return create(node)


def create(node: LiveNode, **configs: str) -> str:
    name = f"topic-{next(_numbers)}"
    new = NewTopic(name=name, configs={key.replace("_", "."): one for key, one in configs.items()})
    (outcome,) = node.submit(CreateTopics(topics=(new,)))
    assert outcome.error is None
    return name


def produce(client: RawClient, topic: str, *timestamps: int) -> int:
    """Append one batch; returns its base offset."""
    records = [Record(None, b"value", (), timestamp) for timestamp in timestamps]
    return produce_bytes(client, topic, build_batch(records))


def produce_bytes(client: RawClient, topic: str, batch: bytes) -> int:
    """Append a batch as it stands; returns its base offset."""
    data = [{"index": 0, "records": batch}]
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }
    (answer,) = client.ask(ApiKey.PRODUCE, 9, fields).responses
    (partition,) = answer.partition_responses
    assert partition.error_code == Code.NONE
    return int(partition.base_offset)


def list_offset(
    client: RawClient, topic: str, timestamp: int, version: int = 11, **fields: Any
) -> tuple[int, int, int]:
    """Return (error, timestamp, offset)."""
    partition = {"partition_index": 0, "timestamp": timestamp} | fields
    answer = client.ask(
        ApiKey.LIST_OFFSETS,
        version,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [partition]}],
            "timeout_ms": 1000,
        },
    )
    (found,) = answer.topics[0].partitions
    return int(found.error_code), int(found.timestamp), int(found.offset)


def delete(client: RawClient, topic: str, offset: int, version: int = 2) -> tuple[int, int]:
    """Return (error, low watermark)."""
    partitions = [{"partition_index": 0, "offset": offset}]
    fields = {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": 5000}
    (found,) = client.ask(ApiKey.DELETE_RECORDS, version, fields).topics[0].partitions
    return int(found.error_code), int(found.low_watermark)


@pytest.mark.parametrize("version", range(1, 12))
def test_ends_of_a_partition_are_listed_in_every_version(
    client: RawClient, topic: str, version: int
) -> None:
    assert list_offset(client, topic, -2, version) == (0, -1, 0)
    assert list_offset(client, topic, -1, version) == (0, -1, 0)
    produce(client, topic, 1000, 2000)
    assert list_offset(client, topic, -2, version) == (0, -1, 0)
    assert list_offset(client, topic, -1, version) == (0, -1, 2)
    assert list_offset(client, topic, 1500, version) == (0, 2000, 1)


def test_look_up_by_time_finds_the_first_record_at_or_after_it(
    client: RawClient, topic: str
) -> None:
    produce(client, topic, 1000, 3000, 2000)
    produce(client, topic, 2500)
    produce(client, topic, 9000, 4000)
    wanted = {0: 0, 1000: 0, 1001: 1, 3000: 1, 3001: 4, 9000: 4}
    for timestamp, offset in wanted.items():
        assert list_offset(client, topic, timestamp)[2] == offset, timestamp
    assert list_offset(client, topic, 9001) == (0, -1, -1)


def test_record_with_the_largest_timestamp_is_found(client: RawClient, topic: str) -> None:
    assert list_offset(client, topic, -3) == (0, -1, -1)
    produce(client, topic, 1000, 7000, 2000)
    produce(client, topic, 5000)
    assert list_offset(client, topic, -3) == (0, 7000, 1)


def test_append_time_of_a_batch_is_that_of_its_first_record(
    node: LiveNode, client: RawClient
) -> None:
    topic = create(node, message_timestamp_type="LogAppendTime")
    produce(client, topic, 1, 2, 3)
    error, timestamp, offset = list_offset(client, topic, 5000)
    assert (error, offset) == (0, 0)
    assert timestamp > 1_600_000_000_000


def test_bounds_of_a_remote_tier_are_unknown_and_the_local_start_is_the_start(
    client: RawClient, topic: str
) -> None:
    produce(client, topic, 1000)
    assert list_offset(client, topic, -4) == (0, -1, 0)
    assert list_offset(client, topic, -5) == (0, -1, -1)
    assert list_offset(client, topic, -6) == (0, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_special_timestamp_before_its_version_is_refused(
    client: RawClient, topic: str, timestamp: int, version: int
) -> None:
    assert list_offset(client, topic, timestamp, version) == (Code.UNSUPPORTED_VERSION, -1, -1)


def test_listing_checks_partition_and_leader_epoch(client: RawClient, topic: str) -> None:
    unknown = list_offset(client, "no-such-topic", -1)
    other_partition = list_offset(client, topic, -1, partition_index=5)
    newer = list_offset(client, topic, -1, current_leader_epoch=9)
    same = list_offset(client, topic, -1, current_leader_epoch=0)
    assert unknown[0] == other_partition[0] == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert newer[0] == Code.UNKNOWN_LEADER_EPOCH
    assert same[0] == Code.NONE


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_in_every_version(client: RawClient, topic: str, version: int) -> None:
    produce(client, topic, 1, 2, 3)
    assert delete(client, topic, 2, version) == (0, 2)
    assert list_offset(client, topic, -2) == (0, -1, 2)
    assert delete(client, topic, 1, version) == (0, 2), "the start never falls"
    assert delete(client, topic, -1, version) == (0, 3), "-1 is the high watermark"
    assert list_offset(client, topic, 0) == (0, -1, -1)


def test_deletion_answers_each_refusal_with_its_code(client: RawClient, topic: str) -> None:
    produce(client, topic, 1)
    assert delete(client, topic, 2) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert delete(client, topic, -2) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert delete(client, "no-such-topic", 0) == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(client, "__consumer_offsets", 0) == (Code.INVALID_TOPIC_EXCEPTION, -1)


def test_look_up_in_a_batch_that_is_half_deleted_never_answers_below_the_start(
    client: RawClient, topic: str
) -> None:
    produce(client, topic, 1000, 2000, 3000)
    delete(client, topic, 2)
    assert list_offset(client, topic, 1000)[2] == 2


def epoch_end(
    client: RawClient, topic: str, leader_epoch: int, version: int = 4, **fields: int
) -> Any:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": leader_epoch}
    request = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [partition | fields]}]}
    (found,) = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request).topics[0].partitions
    return int(found.error_code), int(found.leader_epoch), int(found.end_offset)


def test_ends_of_epochs_over_three_masterships(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        topic = create(node)
        first = leader_epoch(node)
        produce(client, topic, 1, 2)
    with running_node(tmp_path) as node:
        second = leader_epoch(node)  # wrote nothing
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        third = leader_epoch(node)
        produce(client, topic, 3)
        for version in range(2, 5):
            assert epoch_end(client, topic, first, version) == (0, first, 2)
            assert epoch_end(client, topic, second, version) == (0, second, 2)
            assert epoch_end(client, topic, third, version) == (0, third, 3)
            assert epoch_end(client, topic, third + 1, version) == (0, -1, -1)
        fenced = epoch_end(client, topic, first, current_leader_epoch=second)
        unknown = epoch_end(client, topic, first, current_leader_epoch=third + 1)
        missing = epoch_end(client, "no-such-topic", first)
    assert fenced[0] == Code.FENCED_LEADER_EPOCH
    assert unknown[0] == Code.UNKNOWN_LEADER_EPOCH
    assert missing[0] == Code.UNKNOWN_TOPIC_OR_PARTITION


def leader_epoch(node: LiveNode) -> int:
    (member,) = node.broker.members.values()
    return int(member.leader_epoch)


def test_look_up_by_time_goes_on_behind_a_batch_of_which_only_older_records_are_kept(
    client: RawClient, topic: str
) -> None:
    produce(client, topic, 1000, 9000, 2000)
    produce(client, topic, 3000, 9500)
    delete(client, topic, 2)
    assert list_offset(client, topic, 2000) == (0, 2000, 2)
    assert list_offset(client, topic, 5000) == (0, 9500, 4)


def test_a_batch_that_promises_a_later_time_than_it_holds_is_passed_over(
    client: RawClient, topic: str
) -> None:
    lying = bytearray(build_batch([Record(None, b"value", (), 1000)]))
    lying[35:43] = (8000).to_bytes(8, "big")
    lying[17:21] = crc32c(lying[21:]).to_bytes(4, "big")
    produce_bytes(client, topic, bytes(lying))
    produce(client, topic, 6000)
    assert list_offset(client, topic, 5000) == (0, 6000, 1)


def test_a_batch_that_can_not_be_opened_stands_for_its_first_record(
    node: LiveNode, client: RawClient
) -> None:
    topic = create(node, penstock_record_validation="header")
    produce(client, topic, 1000)
    damaged = bytearray(build_batch([Record(None, b"v" * 500, (), 5000)] * 2, codec=4))
    damaged[61:65] = b"junk"
    damaged[17:21] = crc32c(damaged[21:]).to_bytes(4, "big")
    produce_bytes(client, topic, bytes(damaged))
    assert list_offset(client, topic, 4000) == (0, 5000, 1)


@pytest.mark.parametrize("codec", range(5))
def test_look_up_by_time_opens_batches_of_every_codec(
    client: RawClient, topic: str, codec: int
) -> None:
    records = [Record(b"key", b"value" * 50, (), 1000 + 10 * n) for n in range(500)]
    produce_bytes(client, topic, build_batch(records, codec=codec))
    assert list_offset(client, topic, 3333) == (0, 3340, 234)


def test_the_start_after_a_deletion_is_still_the_start_after_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        topic = create(node)
        produce(client, topic, 1, 2, 3)
        assert delete(client, topic, 2) == (0, 2)
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        assert list_offset(client, topic, -2) == (0, -1, 2)
        assert delete(client, topic, 1) == (0, 2)


def test_a_partition_named_twice_is_looked_up_once(client: RawClient, topic: str) -> None:
    produce(client, topic, 1000)
    wanted = {"partition_index": 0, "timestamp": 500, "current_leader_epoch": -1}
    fields: dict[str, Any] = {"replica_id": -1, "isolation_level": 0, "timeout_ms": 1000}
    fields["topics"] = [{"name": topic, "partitions": [wanted] * 3}]
    answers = client.ask(ApiKey.LIST_OFFSETS, 7, fields).topics[0].partitions
    assert [answer.error_code for answer in answers] == [
        0,
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
    ]
    assert answers[0].offset == 0
