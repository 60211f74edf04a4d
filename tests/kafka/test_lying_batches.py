"""Batches with a right checksum that lie about what they hold: refused, and told why."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import cramjam
import pytest

from penstock.client.admin import MAX_TIMESTAMP
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.record.compression import SNAPPY, compress
from penstock.record.read import iter_batches
from tests.broker.test_batches_end_to_end import fetch
from tests.kafka.test_admin_handlers_offsets import list_offset
from tests.live_node import LiveNode, RawClient, running_node
from tests.record.batches import batch, record, simple, zigzag
from tests.record.test_compression import xerial

CODECS = [1, 2, 3, 4]
HERE_BYTES = 40_000
OFF_THE_LOOP_BYTES = 3 << 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("lies"), "log.segment_bytes=67108864") as node:
        for name, configs in (
            ("strict", {}),
            ("trusting", {"penstock.record.validation": "header"}),
            ("narrow", {"penstock.record.unpacked.bytes.max": str(1 << 20)}),
            ("gzipped", {"compression.type": "gzip"}),
            ("timed", {}),
            ("stamped", {"message.timestamp.type": "LogAppendTime"}),
            ("recent", {"message.timestamp.before.max.ms": "3600000"}),
        ):
            new = NewTopic(name=name, configs={"max.message.bytes": str(16 << 20)} | configs)
            (outcome,) = node.submit(CreateTopics(topics=(new,)))
            assert outcome.error is None
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def produce(client: RawClient, topic: str, records: bytes | bytearray) -> Any:
    """Return what is said of the partition."""
    data = [{"index": 0, "records": bytes(records)}]
    fields: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout_ms": 5000}
    fields |= {"topic_data": [{"name": topic, "partition_data": data}]}
    (answer,) = client.ask(ApiKey.PRODUCE, 9, fields).responses
    return answer.partition_responses[0]


def packed(block: bytes, count: int, codec: int) -> bytearray:
    return batch(compress(codec, block) if codec else block, count, attributes=codec)


def plain_records(size: int) -> tuple[bytes, int]:
    """A block of sound records of about `size` bytes and how many they are."""
    one = len(record(0, b"k", bytes(1000)))
    count = max(1, size // one)
    return b"".join(record(n, b"k", bytes(1000)) for n in range(count)), count


def twice(codec: int) -> bytearray:
    """Two streams of one codec, a record in each."""
    streams = [compress(codec, record(delta, b"k", b"v")) for delta in range(2)]
    if codec == SNAPPY:
        streams = [xerial(stream) for stream in streams]
    return batch(b"".join(streams), 2, attributes=codec)


def many_headers() -> bytes:
    content = b"\0" + zigzag(0) + zigzag(0) + b"\1\1" + zigzag(2**31 - 1)
    return zigzag(len(content)) + content


LIES = {
    "a codec that the bytes are not of": lambda: batch(record(0, b"k", b"v"), 1, attributes=1),
    "fewer records than it counts": lambda: packed(record(0, b"k", b"v" * 50), 2, 0),
    "a record longer than the batch": lambda: batch(zigzag(400) + bytes(60), 1),
    "a number that does not end": lambda: batch(b"\xff" * 60, 1),
    "2^31 headers": lambda: batch(many_headers(), 1),
    "bytes behind the last record": lambda: batch(record(0, b"k", b"v") + b"junk", 1),
    "two gzip members": lambda: twice(1),
    "two lz4 frames": lambda: twice(3),
    "two zstd frames": lambda: twice(4),
    "two streams of xerial's snappy blocks": lambda: twice(2),
    "attributes of two bytes to some clients": lambda: batch(b"\x0e\x80\0\0\1\1\0\0", 1),
    "the format of Kafka 0.10": lambda: bytearray(16) + b"\1" + bytes(20),
    "the format of Kafka 0.10, as long as a batch": lambda: simple(3, magic=1),
    "offsets that do not follow": lambda: batch(record(0, b"k", b"v") + record(5, b"k", b"v"), 2),
}


@pytest.mark.parametrize("topic", ["strict", "gzipped"])
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_for_good_and_its_reason_is_told(
    client: RawClient, topic: str, lie: str
) -> None:
    end = fetch(client, topic).high_watermark
    answer = produce(client, topic, LIES[lie]())
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "invalid record batch: " in answer.error_message or "magic" in answer.error_message
    assert fetch(client, topic).high_watermark == end


@pytest.mark.parametrize("topic", ["strict", "gzipped"])
@pytest.mark.parametrize("codec", [0, *CODECS])
@pytest.mark.parametrize("size", [HERE_BYTES, OFF_THE_LOOP_BYTES])
def test_the_record_at_fault_is_named_in_every_codec_and_size(
    client: RawClient, topic: str, codec: int, size: int
) -> None:
    block, count = plain_records(size)
    bad = block + record(count + 1, None, None)
    answer = produce(client, topic, packed(bad, count + 1, codec))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [count]
    assert "its offset does not follow" in answer.record_errors[0].batch_index_error_message
    assert produce(client, topic, packed(block, count, codec)).error_code == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [HERE_BYTES, OFF_THE_LOOP_BYTES])
def test_compressed_bytes_that_end_early_or_go_on_are_refused(
    client: RawClient, codec: int, size: int
) -> None:
    block, count = plain_records(size)
    whole = compress(codec, block)
    for wrong in (whole[:-5], whole + b"junk"):
        answer = produce(client, "strict", batch(wrong, count, attributes=codec))
        assert answer.error_code == ErrorCode.INVALID_RECORD


def test_lz4_blocks_that_depend_on_each_other_are_refused_as_java_can_not_read_them(
    client: RawClient,
) -> None:
    block, count = plain_records(HERE_BYTES)
    linked = cramjam.lz4.Compressor(level=1, block_linked=True)
    linked.compress(block)
    answer = produce(client, "strict", batch(bytes(linked.finish()), count, attributes=3))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "depend on each other" in answer.error_message


def bomb(size: int, codec: int = 4) -> bytes:
    """One sound record of zeros."""
    return build_batch([Record(None, bytes(size), (), 1000)], codec=codec)


@pytest.mark.parametrize(
    ("topic", "size"), [("strict", 200 << 20), ("strict", 8 << 20), ("narrow", 2 << 20)]
)
def test_a_bomb_is_too_large(client: RawClient, topic: str, size: int) -> None:
    data = bomb(size)
    assert len(data) < 8_000 + size // 10_000
    answer = produce(client, topic, data)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "unpack to more than" in answer.error_message


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_of_one_byte_over_and_over_is_no_bomb(client: RawClient, codec: int) -> None:
    assert produce(client, "strict", bomb(3 << 20, codec)).error_code == 0


def test_with_validation_of_headers_alone_a_batch_is_taken_as_it_is(client: RawClient) -> None:
    lying = packed(record(0, b"k", b"v") + record(5, b"k", b"v"), 2, 3)
    assert produce(client, "trusting", lying).error_code == 0


def test_control_batches_and_batches_of_no_records_are_refused(client: RawClient) -> None:
    assert produce(client, "strict", simple(1, attributes=0x20)).error_code == 87
    assert produce(client, "strict", batch(b"", 0)).error_code == 87


@pytest.mark.parametrize("codec", [0, 3])
def test_a_newest_time_that_is_not_that_of_the_records_is_put_right(
    client: RawClient, codec: int
) -> None:
    """As Kafka does: what is looked up by time later goes by the header."""
    block = record(0, None, b"a", 5) + record(1, None, b"b", 70) + record(2, None, b"c", 6)
    payload = compress(codec, block) if codec else block
    lying = batch(payload, 3, attributes=codec, max_timestamp=999_999)
    answer = produce(client, "strict", lying)
    assert answer.error_code == 0
    data = memoryview(fetch(client, "strict", answer.base_offset).records)
    (header, whole), *_ = iter_batches(data)
    assert header.max_timestamp == 1070
    assert read_header(whole).crc == header.crc


@pytest.mark.parametrize("codec", [0, 3])
def test_a_look_up_by_time_goes_by_the_times_of_the_records(client: RawClient, codec: int) -> None:
    """The log's index is filled from the header: it has to be the one that was put right."""
    block = record(0, None, b"a", 5) + record(1, None, b"b", 70)
    payload = compress(codec, block) if codec else block
    lying = batch(payload, 2, attributes=codec, max_timestamp=9_000_000)
    base = produce(client, "timed", lying).base_offset
    assert list_offset(client, "timed", 2_000) == (0, -1, -1)
    assert list_offset(client, "timed", MAX_TIMESTAMP)[1] == 1070
    assert base >= 0


def test_a_look_up_by_time_finds_what_the_broker_stamped(client: RawClient) -> None:
    answer = produce(client, "stamped", simple(2, max_timestamp=1000))
    stamped_ms = round(answer.log_append_time.timestamp() * 1000)
    assert stamped_ms > 1_000_000_000_000
    assert list_offset(client, "stamped", 2_000) == (0, stamped_ms, answer.base_offset)


def test_a_record_too_old_behind_a_recent_one_is_refused(client: RawClient) -> None:
    now_ms = int(time.time() * 1000)
    old = record(0, None, b"new") + record(1, None, b"old", -7_200_000)
    data = batch(old, 2, base_timestamp=now_ms, max_timestamp=now_ms)
    assert produce(client, "recent", data).error_code == ErrorCode.INVALID_TIMESTAMP
    young = record(0, None, b"new") + record(1, None, b"young", -1_800_000)
    data = batch(young, 2, base_timestamp=now_ms, max_timestamp=now_ms)
    assert produce(client, "recent", data).error_code == 0


def test_a_record_far_in_the_future_behind_a_modest_header_is_refused(client: RawClient) -> None:
    future = 4_000_000_000_000
    lying = batch(record(0, None, b"a", future), 1, max_timestamp=1000)
    assert produce(client, "strict", lying).error_code == ErrorCode.INVALID_TIMESTAMP
