"""What stock clients are told where a compacted topic takes no record without a key."""

from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from harness.waiting import UNTIL_SECONDS

pytestmark = pytest.mark.process
INVALID = KafkaError.INVALID_RECORD
BESIDE = KafkaError._INVALID_DIFFERENT_RECORD
"""Of records that were in a batch with one at fault."""


@pytest.fixture
def compacted(bootstrap: str, name: str) -> str:
    """A new topic with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[name].result(UNTIL_SECONDS)
    return name


class Reports:
    """What became of each value."""

    def __init__(self) -> None:
        self.codes: dict[str, int | None] = {}

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        value = (message.value() or b"").decode()
        self.codes[value] = None if error is None else error.code()


def send(one: Producer, topic: str, *records: tuple[str | None, str]) -> Reports:
    """Send (key, value) pairs to one partition, and wait for the reports."""
    reports = Reports()
    for key, value in records:
        one.produce(topic, value, key, partition=0, on_delivery=reports)
    assert one.flush(UNTIL_SECONDS) == 0
    return reports


def producer(bootstrap: str, **settings: Any) -> Producer:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 100, **dotted})


def values(bootstrap: str, topic: str, count: int) -> list[str]:
    """Return the committed values of the topic, `count` of them or more."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    while True:
        message = consumer.poll(UNTIL_SECONDS)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        found.append((message.value() or b"").decode())
    consumer.close()
    assert len(found) >= count, found
    return found


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_without_a_key_are_refused_and_the_same_with_one_are_taken(
    bootstrap: str, compacted: str, idempotent: bool, codec: str
) -> None:
    one = producer(bootstrap, enable_idempotence=idempotent, compression_type=codec)
    refused = send(one, compacted, ("k", "a"), (None, "b"), ("k", "c"), (None, "d"))
    assert refused.codes == {"a": BESIDE, "b": INVALID, "c": BESIDE, "d": INVALID}
    assert set(send(one, compacted, ("k", "a"), ("l", "b")).codes.values()) == {None}
    assert set(send(one, compacted, ("", "c")).codes.values()) == {None}
    assert values(bootstrap, compacted, 3) == ["a", "b", "c"]


def test_a_transaction_with_a_record_without_a_key_is_aborted(
    bootstrap: str, compacted: str, name: str
) -> None:
    one = producer(bootstrap, transactional_id=name)
    one.init_transactions(UNTIL_SECONDS)
    one.begin_transaction()
    assert send(one, compacted, ("k", "lost")).codes == {"lost": None}
    assert send(one, compacted, (None, "b")).codes == {"b": INVALID}
    with pytest.raises(KafkaException) as refused:
        one.commit_transaction(UNTIL_SECONDS)
    assert refused.value.args[0].txn_requires_abort()
    one.abort_transaction(UNTIL_SECONDS)
    # librdkafka has counted the refused record, so its next one would be out of order.
    one = producer(bootstrap, transactional_id=name)
    one.init_transactions(UNTIL_SECONDS)
    one.begin_transaction()
    assert send(one, compacted, ("k", "b"), ("l", "c")).codes == {"b": None, "c": None}
    one.commit_transaction(UNTIL_SECONDS)
    assert values(bootstrap, compacted, 2) == ["b", "c"]


def test_records_are_deleted_only_where_the_policy_lets_them(
    bootstrap: str, compacted: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    send(producer(bootstrap), compacted, ("k", "a"), ("l", "b"))
    target = TopicPartition(compacted, 0, 1)
    with pytest.raises(KafkaException) as refused:
        admin.delete_records([target])[target].result(UNTIL_SECONDS)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND)
    resource = ConfigResource(ResourceType.TOPIC, compacted, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(UNTIL_SECONDS)
    assert admin.delete_records([target])[target].result(UNTIL_SECONDS).low_watermark == 1
    # The first group makes the topic of offsets.
    own = {"bootstrap.servers": bootstrap, "group.id": compacted}
    Consumer(own).commit(offsets=[TopicPartition(compacted, 0, 1)], asynchronous=False)
    internal = TopicPartition("__consumer_offsets", 0, 0)
    with pytest.raises(KafkaException) as internal_refused:
        admin.delete_records([internal])[internal].result(UNTIL_SECONDS)
    assert internal_refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
