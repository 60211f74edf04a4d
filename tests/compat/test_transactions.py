"""Transactions, with stock clients."""

import asyncio
import random
import time
import warnings
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.waiting import UNTIL_SECONDS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.live_node import RawClient

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer, OffsetAndMetadata
    from kafka import TopicPartition as KafkaPythonPartition

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PARTITIONS = 3
MOVED = 60
"""Records that are moved from one topic to another."""


def producer(bootstrap: str, name: str, **settings: Any) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **settings})
    made.init_transactions(UNTIL_SECONDS)
    return made


def write(one: Producer, topic: str, *values: str) -> None:
    for number, value in enumerate(values):
        one.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert one.flush(UNTIL_SECONDS) == 0


def read(bootstrap: str, topic: str, end: str, *, isolation: str = "read_committed") -> list[str]:
    """Return what is read up to the value `end` of each partition, in no order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{isolation}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + UNTIL_SECONDS
    try:
        while found.count(end) < PARTITIONS:
            assert time.monotonic() < deadline, found
            for message in consumer.consume(100, 0.2):
                assert message.error() is None, message.error()
                found.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return sorted(found)


def finish(bootstrap: str, topic: str, name: str) -> None:
    """Write the last value to every partition, in a transaction that comes after all others."""
    last = producer(bootstrap, f"{name}-last")
    last.begin_transaction()
    write(last, topic, "end", "end", "end")
    last.commit_transaction(UNTIL_SECONDS)


def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, topic: str, name: str
) -> None:
    one = producer(bootstrap, name)
    expected: list[str] = []
    for number in range(10):
        values = [f"{number}-{at}" for at in range(7)]
        one.begin_transaction()
        write(one, topic, *values)
        if number % 3 == 1:
            one.abort_transaction(UNTIL_SECONDS)
        else:
            one.commit_transaction(UNTIL_SECONDS)
            expected += values
    finish(bootstrap, topic, name)
    found = Counter(read(bootstrap, topic, "end"))
    del found["end"]
    assert found == Counter(expected)
    assert len(read(bootstrap, topic, "end", isolation="read_uncommitted")) >= 70


def test_a_newer_instance_fences_the_old_one_and_aborts_what_it_left(
    bootstrap: str, topic: str, name: str
) -> None:
    old = producer(bootstrap, name)
    old.begin_transaction()
    write(old, topic, "left open")
    new = producer(bootstrap, name)
    with pytest.raises(KafkaException, match="fenced"):
        old.commit_transaction(UNTIL_SECONDS)
    new.begin_transaction()
    write(new, topic, "new")
    new.commit_transaction(UNTIL_SECONDS)
    finish(bootstrap, topic, name)
    assert set(read(bootstrap, topic, "end")) == {"new", "end"}


def test_a_transaction_of_a_client_that_is_gone_is_aborted(
    bootstrap: str, topic: str, name: str
) -> None:
    gone = producer(bootstrap, name, **{"transaction.timeout.ms": 1_000})
    gone.begin_transaction()
    write(gone, topic, "left open")
    del gone
    finish(bootstrap, topic, name)
    assert set(read(bootstrap, topic, "end")) == {"end"}


def test_a_transaction_is_told_to_operators(bootstrap: str, topic: str, name: str) -> None:
    one = producer(bootstrap, name)
    one.begin_transaction()
    write(one, topic, "a")
    with closing(RawClient(int(bootstrap.rpartition(":")[2]))) as client:
        asked = {"transactional_ids": [name, "unknown"]}
        told, unknown = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, asked).transaction_states
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (told.transaction_state, told.topics[0].topic) == ("Ongoing", topic)
        wanted = {"state_filters": ["Ongoing", "Odd"], "producer_id_filters": []}
        listed = client.ask(ApiKey.LIST_TRANSACTIONS, 0, wanted)
        assert listed.unknown_state_filters == ("Odd",)
        ids = {each.transactional_id: each.producer_id for each in listed.transaction_states}
        assert ids[name] == told.producer_id
    one.commit_transaction(UNTIL_SECONDS)


def test_librdkafka_takes_the_refusal_of_a_long_id_as_final(bootstrap: str) -> None:
    with pytest.raises(KafkaException) as refused:
        producer(bootstrap, "x" * 1_025)
    error = refused.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error.fatal()


def test_kafka_python_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    one = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    one.init_transactions()
    for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
        one.begin_transaction()
        for partition in range(PARTITIONS):
            one.send(topic, value, partition=partition).get(UNTIL_SECONDS)
        if commits:
            one.commit_transaction()
        else:
            one.abort_transaction()
    one.close()
    finish(bootstrap, topic, name)
    found = Counter(read(bootstrap, topic, "end"))
    assert (found["a"], found["b"], found["c"]) == (3, 0, 3)


def test_aiokafka_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    async def run() -> None:
        one = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await one.start()
        for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
            await one.begin_transaction()
            for partition in range(PARTITIONS):
                await one.send_and_wait(topic, value, partition=partition)
            if commits:
                await one.commit_transaction()
            else:
                await one.abort_transaction()
        await one.stop()

    asyncio.run(run())
    finish(bootstrap, topic, name)
    found = Counter(read(bootstrap, topic, "end"))
    assert (found["a"], found["b"], found["c"]) == (3, 0, 3)


def fill(bootstrap: str, name: str) -> str:
    """Make a topic with the values 0 to MOVED - 1; returns its name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(UNTIL_SECONDS)
    one = Producer({"bootstrap.servers": bootstrap})
    write(one, name, *map(str, range(MOVED)))
    return name


def reader(bootstrap: str, group: str, source: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    return consumer


def back_to_committed(consumer: Consumer) -> None:
    for one in consumer.committed(consumer.assignment(), UNTIL_SECONDS):
        consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))


def test_what_is_moved_with_its_positions_is_there_once_however_often_it_is_aborted(
    bootstrap: str, topic: str, name: str
) -> None:
    source = fill(bootstrap, f"{name}-source")
    draw, deadline = random.Random(7), time.monotonic() + UNTIL_SECONDS
    one, consumer = producer(bootstrap, name), reader(bootstrap, name, source)
    moved = aborted = 0
    while moved < MOVED:
        assert time.monotonic() < deadline, moved
        found = consumer.consume(draw.randint(1, 9), 0.5)
        if not found:
            continue
        one.begin_transaction()
        write(one, topic, *((each.value() or b"").decode() for each in found))
        positions = consumer.position(consumer.assignment())
        metadata = consumer.consumer_group_metadata()
        one.send_offsets_to_transaction(positions, metadata, UNTIL_SECONDS)
        if draw.random() < 0.3:
            one.abort_transaction(UNTIL_SECONDS)
            back_to_committed(consumer)
            aborted += 1
        else:
            one.commit_transaction(UNTIL_SECONDS)
            moved += len(found)
    consumer.close()
    finish(bootstrap, topic, name)
    found_values = Counter(read(bootstrap, topic, "end"))
    del found_values["end"]
    assert aborted
    assert found_values == Counter(map(str, range(MOVED)))


def test_a_member_of_an_old_generation_commits_nothing_in_a_transaction(
    bootstrap: str, topic: str, name: str
) -> None:
    one, old = producer(bootstrap, name), reader(bootstrap, name, topic)
    write(Producer({"bootstrap.servers": bootstrap}), topic, "a", "b", "c")
    assert old.consume(1, UNTIL_SECONDS)
    metadata, position = old.consumer_group_metadata(), TopicPartition(topic, 0, 1)
    old.close()
    one.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        one.send_offsets_to_transaction([position], metadata, UNTIL_SECONDS)
    assert refused.value.args[0].txn_requires_abort()
    one.abort_transaction(UNTIL_SECONDS)


def test_an_open_transaction_shows_the_partition_of_the_group(
    bootstrap: str, topic: str, name: str
) -> None:
    one, consumer = producer(bootstrap, name), reader(bootstrap, name, topic)
    one.begin_transaction()
    position = TopicPartition(topic, 0, 1)
    one.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), UNTIL_SECONDS)
    with closing(RawClient(int(bootstrap.rpartition(":")[2]))) as client:
        asked = {"transactional_ids": [name]}
        (told,) = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, asked).transaction_states
        assert [each.topic for each in told.topics] == ["__consumer_offsets"]
        groups = [
            {
                "group_id": name,
                "member_id": None,
                "member_epoch": -1,
                "topics": [{"name": topic, "partition_indexes": [0]}],
            }
        ]
        fields = {"groups": groups, "require_stable": True}
        (found,) = client.ask(ApiKey.OFFSET_FETCH, 9, fields).groups
        assert found.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    one.commit_transaction(UNTIL_SECONDS)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], UNTIL_SECONDS)
    assert committed.offset == 1
    consumer.close()


def test_aiokafka_commits_positions_in_transactions(bootstrap: str, topic: str, name: str) -> None:
    place = AioPartition(topic, 0)

    async def run() -> None:
        one = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await one.start()
        for offset, commits in ((1, True), (2, False)):
            await one.begin_transaction()
            await one.send_offsets_to_transaction({place: offset}, name)
            if commits:
                await one.commit_transaction()
            else:
                await one.abort_transaction()
        await one.stop()

    asyncio.run(run())
    consumer = reader(bootstrap, name, topic)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], UNTIL_SECONDS)
    assert committed.offset == 1
    consumer.close()


def test_kafka_python_commits_positions_in_transactions(
    bootstrap: str, topic: str, name: str
) -> None:
    one = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    one.init_transactions()
    for offset, commits in ((1, True), (2, False)):
        one.begin_transaction()
        positions = {KafkaPythonPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        one.send_offsets_to_transaction(positions, name)
        if commits:
            one.commit_transaction()
        else:
            one.abort_transaction()
    one.close()
    consumer = reader(bootstrap, name, topic)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], UNTIL_SECONDS)
    assert committed.offset == 1
    consumer.close()
