"""Produce and Fetch over a real connection to a real node."""

from pathlib import Path
from typing import Any

import pytest

from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record, build_batch
from penstock.record.read import iter_records
from tests.live_node import LiveNode, RawClient, running_node

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH


def create(node: LiveNode, name: str, partitions: int = 1, **configs: str) -> bytes:
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name=name, partition_count=partitions, configs=configs)
    (outcome,) = node.submit(CreateTopics(topics=(topic,)))
    assert outcome.error is None
    return bytes(outcome.topic_id)


def batch(*values: bytes, timestamp_ms: int = 1000, **fields: int) -> bytes:
    records = [Record(None, value, (), timestamp_ms) for value in values]
    return build_batch(records, **fields)


def produce(client: RawClient, topic: str, records: bytes, version: int = 9, **fields: Any) -> Any:
    return client.ask(PRODUCE, version, produce_fields(topic, records, **fields))


def produce_fields(
    topic: str, records: bytes, *, partition: int = 0, acks: int = -1, **fields: Any
) -> dict[str, Any]:
    data = [{"index": partition, "records": records}]
    base = {"transactional_id": None, "acks": acks, "timeout_ms": 5000}
    return base | {"topic_data": [{"name": topic, "partition_data": data}]} | fields


def outcome(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


def fetch_fields(topic: str, offset: int, **fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset}
    partition |= {"last_fetched_epoch": -1, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
    partition |= fields.pop("of_partition", {})
    base: dict[str, Any] = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
    }
    base |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    base |= {"forgotten_topics_data": [], "topics": [{"topic": topic, "partitions": [partition]}]}
    return base | fields


def fetched(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def values_of(partition: Any) -> list[bytes | None]:
    return [record.value for record in iter_records(memoryview(partition.records))]


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_answers_with_the_base_offset_in_every_version(
    node: LiveNode, client: RawClient, version: int
) -> None:
    create(node, "events")
    first = outcome(produce(client, "events", batch(b"a", b"b"), version))
    second = outcome(produce(client, "events", batch(b"c"), version))
    assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_returns_what_was_produced_in_every_version(
    node: LiveNode, client: RawClient, version: int
) -> None:
    create(node, "events")
    produce(client, "events", batch(b"a", b"b"))
    partition = fetched(client.ask(FETCH, version, fetch_fields("events", 0)))
    assert values_of(partition) == [b"a", b"b"]
    assert partition.high_watermark == 2


def test_fetch_by_topic_id_and_unknown_topic_id(node: LiveNode, client: RawClient) -> None:
    topic_id = create(node, "events")
    produce(client, "events", batch(b"a"))
    fields = fetch_fields("events", 0)
    fields["topics"][0]["topic_id"] = topic_id
    assert values_of(fetched(client.ask(FETCH, 13, fields))) == [b"a"]
    fields["topics"][0]["topic_id"] = bytes(range(16))
    assert fetched(client.ask(FETCH, 13, fields)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events")
    produce(client, "events", batch(b"a", b"b", b"c"))
    assert values_of(fetched(client.ask(FETCH, 11, fetch_fields("events", 1)))) == [
        b"a",
        b"b",
        b"c",
    ]


def test_a_fetch_at_the_end_waits_for_the_next_record(node: LiveNode, client: RawClient) -> None:
    create(node, "events")
    client.send(FETCH, 11, fetch_fields("events", 0, max_wait_ms=9000))
    producer = node.connect()
    produce(producer, "events", batch(b"late"))
    assert values_of(fetched(client.receive(FETCH, 11))) == [b"late"]
    producer.close()


def test_a_fetch_with_nothing_to_read_ends_at_its_deadline(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events")
    partition = fetched(client.ask(FETCH, 11, fetch_fields("events", 0, max_wait_ms=20)))
    assert partition.error_code == 0
    assert not partition.records


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (5, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, 99, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_that_can_not_be_is_refused_with_its_code(
    node: LiveNode, client: RawClient, offset: int, epoch: int, expected: ErrorCode
) -> None:
    create(node, "events")
    fields = fetch_fields("events", offset, of_partition={"current_leader_epoch": epoch})
    assert fetched(client.ask(FETCH, 11, fields)).error_code == expected


def test_a_fetch_with_an_older_leader_epoch_is_fenced(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        create(node, "events")
    with running_node(tmp_path) as node:
        client = node.connect()
        fields = fetch_fields("events", 0, of_partition={"current_leader_epoch": 0})
        found = fetched(client.ask(FETCH, 11, fields)).error_code
        client.close()
    assert found == ErrorCode.FENCED_LEADER_EPOCH


def corrupt(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.parametrize(
    ("topic", "records", "fields", "expected"),
    [
        ("absent", batch(b"a"), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("events", batch(b"a"), {"partition": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("events", corrupt(batch(b"a")), {}, ErrorCode.CORRUPT_MESSAGE),
        ("events", b"", {}, ErrorCode.CORRUPT_MESSAGE),
        ("events", batch(b"a") + batch(b"b"), {}, ErrorCode.INVALID_RECORD),
        ("events", batch(b"x" * 2_000_000), {}, ErrorCode.MESSAGE_TOO_LARGE),
        ("events", batch(b"a", attributes=0x20), {}, ErrorCode.INVALID_RECORD),
        ("events", batch(b"a"), {"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ("events", batch(b"a", timestamp_ms=1 << 45), {}, ErrorCode.INVALID_TIMESTAMP),
        ("__consumer_offsets", batch(b"a"), {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (
            "events",
            batch(b"a", attributes=0x10),
            {"transactional_id": "t"},
            ErrorCode.INVALID_RECORD,
        ),  # without a producer
    ],
)
def test_a_batch_that_can_not_be_appended_is_refused_with_its_code(
    node: LiveNode,
    client: RawClient,
    topic: str,
    records: bytes,
    fields: dict[str, Any],
    expected: ErrorCode,
) -> None:
    create(node, "events")
    answer = outcome(produce(client, topic, records, 9, **fields))
    assert (answer.error_code, answer.base_offset) == (expected, -1)


def test_a_minimum_above_the_members_of_the_set_asks_for_all_of_them(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events", min_insync_replicas="2")
    assert outcome(produce(client, "events", batch(b"a"), acks=-1)).error_code == 0
    assert outcome(produce(client, "events", batch(b"a"), acks=1)).error_code == 0


def test_acks_zero_answers_nothing_and_ends_the_connection_on_an_error(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events")
    client.send(PRODUCE, 9, produce_fields("events", batch(b"a"), acks=0))
    # The next request's answer is the first thing that comes back.
    assert values_of(fetched(client.ask(FETCH, 11, fetch_fields("events", 0, max_wait_ms=5000))))
    client.send(PRODUCE, 9, produce_fields("absent", batch(b"a"), acks=0))
    assert client.is_closed_by_node()


def test_a_repeated_batch_of_an_idempotent_producer_gets_its_first_offset(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events")
    ours = {"producer_id": 5, "producer_epoch": 0}
    first = batch(b"a", b"b", base_sequence=0, **ours)
    produce(client, "events", first)
    produce(client, "events", batch(b"c", base_sequence=2, **ours))
    again = outcome(produce(client, "events", first))
    gap = outcome(produce(client, "events", batch(b"z", base_sequence=9, **ours)))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert fetched(client.ask(FETCH, 11, fetch_fields("events", 0))).high_watermark == 3


def test_producer_state_survives_a_restart(tmp_path: Path) -> None:
    first = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    with running_node(tmp_path) as node:
        create(node, "events")
        client = node.connect()
        produce(client, "events", first)
        client.close()
    with running_node(tmp_path) as node:
        client = node.connect()
        again = outcome(produce(client, "events", first))
        end = fetched(client.ask(FETCH, 11, fetch_fields("events", 0))).high_watermark
        client.close()
    assert (again.error_code, again.base_offset, end) == (0, 0, 1)


def test_log_append_time_stamps_the_batch_and_says_so(node: LiveNode, client: RawClient) -> None:
    create(node, "events", message_timestamp_type="LogAppendTime")
    answer = outcome(produce(client, "events", batch(b"a", timestamp_ms=5)))
    records = fetched(client.ask(FETCH, 11, fetch_fields("events", 0))).records
    (record,) = iter_records(memoryview(records))
    assert record.timestamp_ms > 1_600_000_000_000
    assert answer.log_append_time is not None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_compression_type_of_the_topic_recompresses_batches(
    node: LiveNode, client: RawClient, codec: str
) -> None:
    create(node, "events", compression_type=codec)
    produce(client, "events", batch(b"a" * 1000, b"b", codec=1))
    partition = fetched(client.ask(FETCH, 11, fetch_fields("events", 0)))
    names = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
    assert values_of(partition) == [b"a" * 1000, b"b"]
    assert bytes(partition.records)[22] & 7 == names.index(codec)


def test_answers_leave_in_request_order_when_a_fetch_waits_in_front(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events")
    client.send(FETCH, 11, fetch_fields("events", 0, max_wait_ms=9000))
    client.send(PRODUCE, 9, produce_fields("events", batch(b"a")))
    assert values_of(fetched(client.receive(FETCH, 11))) == [b"a"]
    assert outcome(client.receive(PRODUCE, 9)).base_offset == 0


def test_an_incremental_session_names_only_partitions_with_news(
    node: LiveNode, client: RawClient
) -> None:
    create(node, "events")
    opened = client.ask(FETCH, 11, fetch_fields("events", 0, session_epoch=0))
    session = {"session_id": opened.session_id, "topics": []}
    quiet = client.ask(FETCH, 11, fetch_fields("", 0, **session, session_epoch=1))
    produce(client, "events", batch(b"a"))
    news = client.ask(FETCH, 11, fetch_fields("", 0, **session, session_epoch=2))
    wrong = client.ask(FETCH, 11, fetch_fields("", 0, **session, session_epoch=2))
    assert opened.session_id > 0
    assert quiet.responses == ()
    assert values_of(fetched(news)) == [b"a"]
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_deleted_topic_answers_a_waiting_fetch(node: LiveNode, client: RawClient) -> None:
    from penstock.controller.commands.command import DeleteTopics, TopicReference

    create(node, "events")
    client.send(FETCH, 11, fetch_fields("events", 0, max_wait_ms=9000))
    other = node.connect()
    other.ask(FETCH, 11, fetch_fields("events", 0))
    node.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    found = fetched(client.receive(FETCH, 11)).error_code
    other.close()
    assert found == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unsupported_version_ends_the_connection(node: LiveNode, client: RawClient) -> None:
    client.send_body(FETCH, 99, b"")
    assert client.is_closed_by_node()
