"""Times, sizes and levels of a topic at their boundary values, by requests built here."""

from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.record.compression import GZIP, LZ4, ZSTD, compress
from penstock.record.read import iter_records
from tests.broker.cluster import Cluster, Node

HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return cluster.nodes[0]


def timed(*times_ms: int, codec: int = 0, value: bytes = b"v") -> bytes:
    return build_batch([Record(None, value, (), one) for one in times_ms], codec=codec)


def send(node: Node, topic: str, records: bytes) -> Any:
    data = [{"index": 0, "records": records}]
    topics = [{"name": topic, "partition_data": data}]
    answer = node.ask(ApiKey.PRODUCE, 11, {"acks": 1, "timeout_ms": 1000, "topic_data": topics})
    return answer.responses[0].partition_responses[0]


def stored(node: Node, topic: str) -> memoryview:
    asked = node.fetch(0, topic=topic)
    node.cluster.world.run()
    return memoryview(bytes(asked.answer.responses[0].partitions[0].records))


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_a_time_in_the_future_is_taken_up_to_an_hour(
    cluster: Cluster, node: Node, codec: int
) -> None:
    cluster.create("t")
    now_ms = node.broker.clock.wall_ms()
    assert send(node, "t", timed(now_ms + HOUR_MS, codec=codec)).error_code == 0
    late = send(node, "t", timed(now_ms, now_ms + HOUR_MS + 1, -1, codec=codec))
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record_error.batch_index for record_error in late.record_errors] == [1]
    assert "future" in late.record_errors[0].batch_index_error_message


def test_a_time_in_the_past_is_taken_whatever_it_is_unless_the_topic_has_a_bound(
    cluster: Cluster, node: Node
) -> None:
    cluster.create("t")
    cluster.create("bound", message_timestamp_before_max_ms="60000")
    now_ms = node.broker.clock.wall_ms()
    assert send(node, "t", timed(0)).error_code == 0
    assert send(node, "bound", timed(now_ms - 60_000, -1)).error_code == 0
    old = send(node, "bound", timed(now_ms - 60_001, now_ms, now_ms - 60_001, -1))
    assert old.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record_error.batch_index for record_error in old.record_errors] == [0, 2]


def test_times_of_a_batch_whose_records_nobody_looks_at_are_those_of_its_header(
    cluster: Cluster, node: Node
) -> None:
    cluster.create("t", penstock_record_validation="header")
    now_ms = node.broker.clock.wall_ms()
    assert send(node, "t", timed(now_ms + HOUR_MS)).error_code == 0
    late = send(node, "t", timed(now_ms + HOUR_MS + 1))
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP


def test_of_many_records_at_fault_so_many_are_named(cluster: Cluster, node: Node) -> None:
    cluster.create("t")
    late_ms = node.broker.clock.wall_ms() + 2 * HOUR_MS
    refused = send(node, "t", timed(*[late_ms] * 2_000))
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record_error.batch_index for record_error in refused.record_errors] == list(range(100))


def test_a_worker_names_the_records_too(cluster: Cluster, node: Node) -> None:
    cluster.create("t", compression_type="zstd")
    late_ms = node.broker.clock.wall_ms() + 2 * HOUR_MS
    refused = send(node, "t", timed(0, late_ms, value=bytes(range(256)) * 200))
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [record_error.batch_index for record_error in refused.record_errors] == [1]


def test_log_append_time_takes_any_time_and_says_its_own(cluster: Cluster, node: Node) -> None:
    cluster.create("t", message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="0")
    now_ms = node.broker.clock.wall_ms()
    taken = send(node, "t", timed(now_ms + 2 * HOUR_MS, 0, -1))
    assert taken.error_code == 0
    assert taken.record_errors == ()
    batch = stored(node, "t")
    assert {record.timestamp_ms for record in iter_records(batch)} == {
        read_header(batch).max_timestamp
    }


def test_a_batch_may_be_as_large_as_its_topic_says_and_not_a_byte_larger(
    cluster: Cluster, node: Node
) -> None:
    records = timed(0, value=b"x" * 500)
    cluster.create("fits", max_message_bytes=str(len(records)))
    cluster.create("small", max_message_bytes=str(len(records) - 1))
    assert send(node, "fits", records).error_code == 0
    assert send(node, "small", records).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_what_is_stored_counts_too_where_the_codec_is_changed(cluster: Cluster, node: Node) -> None:
    sent = timed(0, value=b"x" * 5_000, codec=GZIP)
    stored = len(timed(0, value=b"x" * 5_000))
    fits, small = str(stored), str(stored - 1)
    cluster.create("fits", compression_type="uncompressed", max_message_bytes=fits)
    cluster.create("small", compression_type="uncompressed", max_message_bytes=small)
    assert len(sent) < stored
    assert send(node, "fits", sent).error_code == 0
    assert send(node, "small", sent).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("gzip", GZIP, 1),
        ("gzip", GZIP, 9),
        ("lz4", LZ4, 12),
        ("zstd", ZSTD, -100),
        ("zstd", ZSTD, 19),
    ],
)
def test_level_of_a_topic_is_that_of_recompression(
    cluster: Cluster, node: Node, name: str, codec: int, level: int
) -> None:
    level_key: dict[str, Any] = {f"compression_{name}_level": str(level)}
    cluster.create("t", compression_type=name, **level_key)
    value = b"".join(b'{"user": %d, "visits": %d}' % (at, at * at) for at in range(300))
    plain = timed(0, value=value)
    assert send(node, "t", plain).error_code == 0
    assert bytes(stored(node, "t"))[61:] == compress(codec, plain[61:], level)
    assert compress(codec, plain[61:], level) != compress(codec, plain[61:])
