"""Compacted topics: a record without a key refuses its batch; DeleteRecords goes by the policy."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    CreateTopics,
    NewTopic,
    ResourceEdits,
)
from penstock.controller.metadata.records import ResourceType
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record, build_batch
from penstock.record.compression import GZIP, ZSTD
from penstock.record.walk import KEYLESS_NAMED_MAX
from tests.broker.cluster import Cluster, Node

HOUR_MS = 3_600_000
NEVER_HERE = bytes(range(256)) * 300
"""More than the loop compresses by itself."""


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1)
    cluster.create("kept", cleanup_policy="compact")
    cluster.create("both", cleanup_policy="compact,delete")
    cluster.create("trusting", cleanup_policy="compact", penstock_record_validation="header")
    cluster.create("packed", cleanup_policy="compact", compression_type="zstd")
    cluster.create("plain")
    return cluster


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return cluster.nodes[0]


def keyed(*keys: bytes | None, codec: int = 0, value: bytes = b"v") -> bytes:
    return build_batch([Record(key, value, (), 1000) for key in keys], codec=codec)


def send(node: Node, *parts: tuple[str, bytes], version: int = 11) -> list[Any]:
    """Send a batch for partition 0 of each topic; return what is said of each partition."""
    topics = [
        {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        for topic, records in parts
    ]
    fields = {"acks": 1, "timeout_ms": 1000, "topic_data": topics}
    asked = node.send(ApiKey.PRODUCE, version, fields)
    node.cluster.world.run()
    return [part for topic in asked.answer.responses for part in topic.partition_responses]


def switch(cluster: Cluster, topic: str, policy: str) -> None:
    edit = ConfigEdit(key="cleanup.policy", operation=ConfigOperation.SET, value=policy)
    resource = ResourceEdits(resource_type=ResourceType.TOPIC, resource_name=topic, edits=(edit,))
    (outcome,) = cluster.metadata.submit(AlterConfigs(resources=(resource,)))
    assert outcome.error is None


def delete(node: Node, topic: str, offset: int) -> tuple[int, int]:
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    fields = {"topics": topics, "timeout": timedelta(seconds=5)}
    part = node.ask(ApiKey.DELETE_RECORDS, 2, fields).topics[0].partitions[0]
    return int(part.error_code), part.low_watermark


def named(part: Any) -> list[tuple[int, str]]:
    return [(one.batch_index, one.batch_index_error_message) for one in part.record_errors]


def why(topic: str) -> str:
    return f"Compacted topic cannot accept message without key in topic partition {topic}-0"


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
@pytest.mark.parametrize("topic", ["kept", "both", "trusting", "packed"])
def test_records_without_a_key_are_named_as_kafka_names_them(
    node: Node, topic: str, codec: int
) -> None:
    (part,) = send(node, (topic, keyed(b"a", None, b"", None, codec=codec)))
    assert (part.error_code, part.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert named(part) == [(1, why(topic)), (3, why(topic))]
    assert part.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing"
        f" the first three errors at most: [RecordError(batchIndex=1, message='{why(topic)}'),"
        f" RecordError(batchIndex=3, message='{why(topic)}')]"
    )
    (taken,) = send(node, (topic, keyed(b"a", b"", codec=codec)))
    assert (taken.error_code, taken.base_offset) == (0, 0)


def test_other_partitions_go_through(node: Node) -> None:
    parts = send(node, ("plain", keyed(None)), ("kept", keyed(None)), ("both", keyed(b"k")))
    assert [part.error_code for part in parts] == [0, ErrorCode.INVALID_RECORD, 0]


def test_before_version_8_the_code_alone_is_told(node: Node) -> None:
    (part,) = send(node, ("kept", keyed(None)), version=7)
    assert part.error_code == ErrorCode.INVALID_RECORD


def test_a_worker_refuses_too_and_what_follows_goes_through(node: Node) -> None:
    parts = send(
        node,
        ("packed", keyed(b"k", None, value=NEVER_HERE)),
        ("packed", keyed(b"k", value=NEVER_HERE)),
    )
    assert [part.error_code for part in parts] == [ErrorCode.INVALID_RECORD, 0]
    assert named(parts[0]) == [(1, why("packed"))]


def test_of_many_so_many_are_named_and_all_are_counted(node: Node) -> None:
    (part,) = send(node, ("kept", keyed(*[None] * 2_000)))
    assert [place for place, _ in named(part)] == list(range(KEYLESS_NAMED_MAX))
    assert "due to 2000 record errors in total" in part.error_message


def test_one_wrong_time_beside_them_makes_it_an_error_of_times(node: Node) -> None:
    now_ms = node.broker.clock.wall_ms()
    late = now_ms + 2 * HOUR_MS
    mixed = [Record(None, b"v", (), late), Record(b"k", b"v", (), late), Record(None, b"v", (), 0)]
    (part,) = send(node, ("kept", build_batch(mixed)))
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert named(part)[0] == (0, why("kept"))
    assert named(part)[2] == (2, why("kept"))
    assert "future" in named(part)[1][1]


def test_a_record_that_lacks_its_key_is_not_asked_for_its_time(node: Node) -> None:
    late = node.broker.clock.wall_ms() + 2 * HOUR_MS
    mixed = [Record(None, b"v", (), late), Record(b"k", b"v", (), 0)]
    (part,) = send(node, ("kept", build_batch(mixed)))
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert named(part) == [(0, why("kept"))]


def test_the_policy_is_switched_while_the_topic_is_in_use(cluster: Cluster, node: Node) -> None:
    assert send(node, ("plain", keyed(None)))[0].error_code == 0
    switch(cluster, "plain", "compact")
    assert send(node, ("plain", keyed(None)))[0].error_code == ErrorCode.INVALID_RECORD
    switch(cluster, "plain", "delete")
    assert send(node, ("plain", keyed(None)))[0].error_code == 0


def test_a_refused_batch_takes_no_sequence_number(node: Node) -> None:
    def sequenced(sequence: int, key: bytes | None) -> bytes:
        one = Record(key, b"v", (), 1000)
        return build_batch([one], producer_id=7, producer_epoch=0, base_sequence=sequence)

    assert send(node, ("kept", sequenced(0, b"k")))[0].error_code == 0
    assert send(node, ("kept", sequenced(1, None)))[0].error_code == ErrorCode.INVALID_RECORD
    (ahead,) = send(node, ("kept", sequenced(2, b"k")))
    assert ahead.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    (taken,) = send(node, ("kept", sequenced(1, b"k")))
    assert (taken.error_code, taken.base_offset) == (0, 1)


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(
    cluster: Cluster, node: Node
) -> None:
    for topic in ("kept", "both", "plain"):
        send(node, (topic, keyed(b"a", b"b")))
    for offset in (1, -1, 99):
        assert delete(node, "kept", offset) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(node, "both", 1) == (0, 1)
    assert delete(node, "plain", 1) == (0, 1)


def test_a_switched_policy_counts_for_deletions_at_once(cluster: Cluster, node: Node) -> None:
    send(node, ("kept", keyed(b"a", b"b", b"c")))
    assert delete(node, "kept", 1) == (ErrorCode.POLICY_VIOLATION, -1)
    switch(cluster, "kept", "compact,delete")
    assert delete(node, "kept", 1) == (0, 1)
    switch(cluster, "kept", "")
    assert delete(node, "kept", 2) == (0, 2)
    switch(cluster, "kept", "compact")
    assert delete(node, "kept", 3) == (ErrorCode.POLICY_VIOLATION, -1)


def test_records_of_internal_topics_are_not_deleted(cluster: Cluster, node: Node) -> None:
    topic = NewTopic(name=INTERNAL_TOPIC, partition_count=1)
    cluster.metadata.submit(CreateTopics(topics=(topic,), internal=True))
    assert delete(node, INTERNAL_TOPIC, 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
