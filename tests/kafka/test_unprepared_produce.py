"""Batches that a worker prepares before they are appended: nothing long happens on the loop."""

from random import Random
from typing import Any

import cramjam
import pytest
from crc32c import crc32c
from lz4 import frame

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.read import iter_records
from tests.broker.cluster import Asked, Cluster, Node, batch, fetched, produce_fields
from tests.record.test_compression import xerial

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LARGE = Random(1).randbytes(20_000)
"""More than the loop prepares by itself, compressed or not."""
RECORD = bytes(5_000)
BOMB = bytes(40_000)
"""Small as it is sent, and large once it is unpacked."""


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1)
    cluster.create("plain")
    cluster.create("packed", compression_type="zstd")
    return cluster


def send(node: Node, *parts: tuple[str, bytes], acks: int = 1) -> Asked:
    """Send one request with a batch for partition 0 of each topic named."""
    topics = [
        {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        for topic, records in parts
    ]
    fields = {"acks": acks, "timeout_ms": 1000, "topic_data": topics}
    return node.send(ApiKey.PRODUCE, 11, fields)


def unpackable(records: bytes) -> bytes:
    """The batch with a right CRC and with contents that are not gzip."""
    made = bytearray(records)
    made[61:71] = bytes(10)
    made[17:21] = crc32c(made[21:]).to_bytes(4, "big")
    return bytes(made)


def outcomes(asked: Asked) -> list[tuple[int, int]]:
    return [
        (int(part.error_code), part.base_offset)
        for topic in asked.answer.responses
        for part in topic.partition_responses
    ]


def end_offset(node: Node, topic: str = "packed") -> int:
    hosted = node.broker.partitions.find(topic, 0)
    assert hosted is not None
    return hosted.log.log_end_offset


def stored(node: Node) -> tuple[int, list[Any]]:
    asked = node.fetch(0, topic="packed")
    node.cluster.world.run()
    records = memoryview(bytes(fetched(asked).records))
    return read_header(records).codec, [record.value for record in iter_records(records)]


@pytest.mark.parametrize(
    "records", [batch(LARGE), batch(LARGE, codec=GZIP), batch(BOMB, codec=GZIP)]
)
def test_a_batch_that_takes_long_to_compress_anew_is_left_to_a_worker(
    cluster: Cluster, records: bytes
) -> None:
    node = cluster.nodes[0]
    asked = send(node, ("packed", records))
    assert (asked.answer, end_offset(node)) == (None, 0)
    assert asked.wire.held_bytes > 0, "the connection hands over nothing more"
    cluster.world.run()
    assert outcomes(asked) == [(0, 0)]
    assert asked.wire.held_bytes == 0
    codec, values = stored(node)
    assert (codec, len(values)) == (ZSTD, 1)


def test_a_small_batch_is_prepared_where_it_arrives(cluster: Cluster) -> None:
    asked = send(cluster.nodes[0], ("packed", batch(b"small", codec=GZIP)))
    assert end_offset(cluster.nodes[0]) == 1
    assert asked.wire.held_bytes == 0


@pytest.mark.parametrize(
    ("codec", "most"),
    [(GZIP, 64 << 10), (SNAPPY, 512 << 10), (LZ4, 512 << 10), (ZSTD, 512 << 10)],
)
def test_a_batch_that_is_quickly_unpacked_is_looked_at_where_it_arrives(
    cluster: Cluster, codec: int, most: int
) -> None:
    node = cluster.nodes[0]
    zeros = bytes(most + 1)
    for offset, size in enumerate((most - 100, 1000, most - 100)):
        asked = send(node, ("plain", batch(zeros[:size], codec=codec)))
        assert end_offset(node, "plain") == offset + 1
        assert asked.wire.held_bytes == 0
    for values in ((zeros,), tuple(bytes(1000) for _ in range(most // 1000))):
        asked = send(node, ("plain", batch(*values, codec=codec)))
        assert end_offset(node, "plain") == 3, "a worker has it"
        assert asked.wire.held_bytes > 0
        asked.wire.is_closed = True
        cluster.world.run()


def packed(codec: int, block: bytes) -> bytes:
    """A batch of one record, with its records packed into `block`."""
    made = bytearray(batch(RECORD)[:61] + block)
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    made[21:23] = codec.to_bytes(2, "big")
    made[17:21] = crc32c(made[21:]).to_bytes(4, "big")
    return bytes(made)


def plain_lz4(records: bytes, *, size: int, kind: int) -> bytes:
    """A frame whose blocks hold `size` bytes each, which are not compressed."""
    header = frame.compress(bytes(5 << 20), block_linked=False, store_size=False, block_size=kind)
    parts = [records[at : at + size] for at in range(0, len(records), size)]
    blocks = ((len(part) | 1 << 31).to_bytes(4, "little") + part for part in parts)
    return header[:7] + b"".join(blocks) + bytes(4)


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_a_small_lz4_frame_is_looked_at_where_it_arrives_however_large_its_blocks_may_be(
    cluster: Cluster, kind: int
) -> None:
    block = plain_lz4(batch(RECORD)[61:], size=1 << 16, kind=kind)
    send(cluster.nodes[0], ("plain", packed(LZ4, block)))
    assert end_offset(cluster.nodes[0], "plain") == 1


@pytest.mark.parametrize("codec", [SNAPPY, LZ4])
def test_a_batch_in_many_small_blocks_is_left_to_a_worker(cluster: Cluster, codec: int) -> None:
    """Each block costs the interpreter some time: 60 KB of them hold it for longer than 512 KiB."""
    node, records = cluster.nodes[0], batch(RECORD)[61:]
    if codec == LZ4:
        block = plain_lz4(records, size=1, kind=4)
    else:
        parts = [cramjam.snappy.compress_raw(records[at : at + 1]) for at in range(len(records))]
        block = xerial(*(bytes(part) for part in parts))
    asked = send(node, ("plain", packed(codec, block)))
    assert (asked.answer, end_offset(node, "plain")) == (None, 0)
    cluster.world.run()
    assert outcomes(asked) == [(0, 0)]


def test_the_parts_of_a_request_are_appended_in_order_around_those_that_wait(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[0]
    large = batch(LARGE, codec=GZIP)
    asked = send(
        node, ("plain", batch(b"a")), ("packed", large), ("plain", batch(b"b")), ("packed", large)
    )
    assert end_offset(node, "plain") == 1
    cluster.world.run()
    assert outcomes(asked) == [(0, 0), (0, 0), (0, 1), (0, 1)]


def test_what_the_worker_refuses_is_refused_alone(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    damaged = unpackable(batch(LARGE, codec=GZIP))
    asked = send(node, ("packed", damaged), ("packed", batch(LARGE)), ("absent", batch(b"a")))
    cluster.world.run()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcomes(asked) == [(ErrorCode.INVALID_RECORD, -1), (0, 0), (unknown, -1)]


def test_a_topic_that_is_deleted_meanwhile_refuses_what_was_prepared_for_it(
    cluster: Cluster,
) -> None:
    from penstock.controller.commands.command import DeleteTopics, TopicReference

    node = cluster.nodes[0]
    asked = send(node, ("packed", batch(LARGE)))
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="packed"),)))
    cluster.world.run()
    assert outcomes(asked) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


@pytest.mark.parametrize(("acks", "kept"), [(1, 0), (0, 1)])
def test_the_batch_of_a_closed_connection_is_dropped_if_it_wanted_an_answer(
    cluster: Cluster, acks: int, kept: int
) -> None:
    node = cluster.nodes[0]
    asked = send(node, ("packed", batch(LARGE)), acks=acks)
    asked.wire.is_closed = True
    cluster.world.run()
    assert end_offset(node) == kept
    assert asked.wire.held_bytes == 0


def test_a_run_of_requests_ends_before_one_that_needs_a_worker(cluster: Cluster) -> None:
    small = produce_fields("plain", (b"a",), 1, {})
    large = produce_fields("packed", (LARGE,), 1, {})
    node = cluster.nodes[0]
    assert node.produce_together(small, large, small).taken == 1
    assert node.produce_together(large, small).taken == 0, "it is handed over by itself"
