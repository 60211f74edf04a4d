"""What a topic's settings do to batches, and what five batches of memory are worth."""

import contextlib
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cramjam
import pytest

from penstock.controller.commands.command import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicReference,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record, build_batch
from penstock.record.read import iter_batches, iter_records
from tests.live_node import UNTIL_SECONDS, LiveNode, RawClient, running_node
from tests.record.batches import batch as batch_around

CODECS = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
SMALL_SEGMENTS = "log.segment_bytes=262144"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    directory = tmp_path_factory.mktemp("batches")
    with running_node(directory, "log.segment_bytes=33554432") as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def create(node: LiveNode, name: str, **configs: str) -> bytes:
    new = NewTopic(name=name, configs={key.replace("_", "."): one for key, one in configs.items()})
    (outcome,) = node.submit(CreateTopics(topics=(new,)))
    assert outcome.error is None
    return bytes(outcome.topic_id)


def produce(
    client: RawClient, topic: str, records: bytes, version: int = 9, **named: Any
) -> tuple[int, int]:
    """Return (error, base offset)."""
    data = [{"index": 0, "records": records}]
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [{"name": topic, "partition_data": data} | named],
    }
    (answer,) = client.ask(ApiKey.PRODUCE, version, fields).responses
    (partition,) = answer.partition_responses
    return int(partition.error_code), int(partition.base_offset)


def fetch(client: RawClient, topic: str, offset: int = 0, max_bytes: int = 8 << 20) -> Any:
    partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset}
    partition |= {"last_fetched_epoch": -1, "log_start_offset": -1}
    partition |= {"partition_max_bytes": max_bytes}
    fields: dict[str, Any] = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": max_bytes,
    }
    fields |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    fields |= {"forgotten_topics_data": []}
    fields |= {"topics": [{"topic": topic, "partitions": [partition]}]}
    return client.ask(ApiKey.FETCH, 11, fields).responses[0].partitions[0]


def text(size: int) -> bytes:
    """Bytes that compress about tenfold with every codec."""
    return b"".join(b"%08d" % (n // 10) for n in range(size // 8))


@pytest.mark.parametrize("sent", range(5))
@pytest.mark.parametrize("stored", range(5))
def test_every_codec_is_stored_as_every_other(
    node: LiveNode, client: RawClient, sent: int, stored: int
) -> None:
    topic = f"from-{CODECS[sent]}-to-{CODECS[stored]}"
    create(node, topic, compression_type=CODECS[stored])
    records = [Record(b"key", text(5000), (("name", b"value"),), 1000 + n) for n in range(20)]
    assert produce(client, topic, build_batch(records, codec=sent)) == (0, 0)
    data = memoryview(fetch(client, topic).records)
    ((header, whole),) = iter_batches(data)
    assert header.codec == stored
    assert [tuple(record)[1:] for record in iter_records(whole)] == [
        (record.timestamp_ms, record.key, record.value, record.headers) for record in records
    ]


def test_a_batch_that_outgrows_the_limit_by_another_codec_is_too_large(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "grows", compression_type="uncompressed", max_message_bytes="100000")
    packed = build_batch([Record(None, text(150_000), (), 1000)], codec=4)
    assert len(packed) < 100_000
    assert produce(client, "grows", packed) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert produce(client, "grows", build_batch([Record(None, text(90_000), (), 1000)])) == (0, 0)


def test_the_bound_of_decompression_follows_the_topics_own_limit(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "wide", compression_type="lz4", max_message_bytes=str(8 << 20))
    packed = build_batch([Record(None, text(6 << 20), (), 1000)], codec=4)
    assert produce(client, "wide", packed) == (0, 0)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_too_large_where_the_broker_would_open_it(
    node: LiveNode, client: RawClient, codec: int
) -> None:
    topic = f"bomb-{codec}"
    create(node, topic, compression_type="uncompressed")
    bomb = build_batch([Record(None, bytes(16 << 20), (), 1000)], codec=codec)
    if len(bomb) > 1_000_000:
        pytest.skip("this codec can not make a bomb that fits a batch")
    assert produce(client, topic, bomb) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_records_of_snappy_in_blocks_of_java_clients_are_recompressed(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "xerial", compression_type="zstd")
    plain = build_batch([Record(b"k", b"v" * 3000, (), 1000)])[61:]
    piece = bytes(cramjam.snappy.compress_raw(plain))
    block = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
    block += len(piece).to_bytes(4, "big") + piece
    assert produce(client, "xerial", bytes(batch_around(block, 1, attributes=2))) == (0, 0)
    (record,) = iter_records(memoryview(fetch(client, "xerial").records))
    assert record.value == b"v" * 3000


def test_damage_inside_a_batch_is_found_where_the_broker_opens_it(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "opened", compression_type="gzip")
    assert produce(client, "opened", bytes(batch_around(b"\x7f" * 50, 1))) == (
        ErrorCode.INVALID_RECORD,
        -1,
    )


def idempotent(sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    records = [Record(None, b"%d" % sequence, (), 1000)] * count
    return build_batch(records, producer_id=9, producer_epoch=epoch, base_sequence=sequence)


def test_five_batches_are_remembered_and_a_sixth_is_out_of_order(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "window")
    for sequence in range(7):
        assert produce(client, "window", idempotent(sequence)) == (0, sequence)
    for sequence in range(2, 7):
        assert produce(client, "window", idempotent(sequence)) == (0, sequence)
    old = produce(client, "window", idempotent(1))
    assert old == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert fetch(client, "window").high_watermark == 7


def test_a_new_epoch_of_a_producer_begins_at_zero_and_fences_the_old_one(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "fenced")
    assert produce(client, "fenced", idempotent(0)) == (0, 0)
    wrong = produce(client, "fenced", idempotent(5, epoch=1))
    assert wrong == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert produce(client, "fenced", idempotent(0, epoch=1)) == (0, 1)
    stale = produce(client, "fenced", idempotent(1))
    assert stale == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_sequences_go_on_at_zero_after_the_largest(node: LiveNode, client: RawClient) -> None:
    create(node, "wraps")
    last = (1 << 31) - 1
    assert produce(client, "wraps", idempotent(last - 1, count=3)) == (0, 0)
    assert produce(client, "wraps", idempotent(1)) == (0, 3)
    assert produce(client, "wraps", idempotent(last - 1, count=3)) == (0, 0)
    gap = produce(client, "wraps", idempotent(3))
    assert gap == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def test_the_window_is_the_same_after_segments_rolled_and_the_node_restarted(
    tmp_path: Path,
) -> None:
    filler = build_batch([Record(None, b"f" * 100_000, (), 1000)])
    with running_node(tmp_path, SMALL_SEGMENTS) as node, closing(node.connect()) as client:
        create(node, "rolled")
        for sequence in range(7):
            assert produce(client, "rolled", idempotent(sequence))[0] == 0
            assert produce(client, "rolled", filler)[0] == 0
    with running_node(tmp_path, SMALL_SEGMENTS) as node, closing(node.connect()) as client:
        for sequence in range(2, 7):
            assert produce(client, "rolled", idempotent(sequence)) == (0, 2 * sequence)
        old = produce(client, "rolled", idempotent(1))
        assert old == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert produce(client, "rolled", idempotent(7)) == (0, 14)


def test_producing_by_the_id_of_a_topic_made_anew_is_refused(
    node: LiveNode, client: RawClient
) -> None:
    first = create(node, "anew")
    record = build_batch([Record(None, b"a", (), 1000)])
    assert produce(client, "anew", record, 13, topic_id=first) == (0, 0)
    node.submit(DeleteTopics(topics=(TopicReference(name="anew"),)))
    second = create(node, "anew")
    unknown = (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert produce(client, "anew", record, 13, topic_id=first) == unknown
    assert produce(client, "anew", record, 13, topic_id=second) == (0, 0)


def test_files_go_with_retention_and_reading_what_is_gone_is_out_of_range(tmp_path: Path) -> None:
    record = build_batch([Record(None, b"f" * 50_000, (), 1000)])
    with running_node(tmp_path, SMALL_SEGMENTS) as node, closing(node.connect()) as client:
        create(node, "short", retention_bytes="300000")
        create(node, "long")
        for _ in range(40):
            assert produce(client, "short", record)[0] == 0
        assert len(fetch(client, "short", max_bytes=60_000).records) == len(record)
        before = log_bytes(tmp_path)
        node.call(node.node.housekeeping.apply_retention)
        deadline = time.monotonic() + UNTIL_SECONDS
        while log_bytes(tmp_path) > before / 2 and time.monotonic() < deadline:
            gone = fetch(client, "short", max_bytes=60_000).error_code
            assert gone in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}
        assert log_bytes(tmp_path) <= before / 2
        assert fetch(client, "short").error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert len(fetch(client, "short", 39).records) == len(record)


def log_bytes(directory: Path) -> int:
    """Size of all segments; one may go while they are counted."""
    sizes = []
    for path in directory.rglob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return sum(sizes)


def test_no_name_of_a_topic_becomes_a_name_of_a_file(tmp_path: Path) -> None:
    record = build_batch([Record(None, b"a", (), 1000)])
    with running_node(tmp_path) as node, closing(node.connect()) as client:
        create(node, "..find-me..")
        assert produce(client, "..find-me..", record) == (0, 0)
    names = [path.name for path in tmp_path.rglob("*")]
    assert names
    assert not [name for name in names if "find-me" in name]
