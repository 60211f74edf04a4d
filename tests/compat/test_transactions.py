"""Transactions, with stock clients."""

import asyncio
import time
import warnings
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer

from harness.waiting import UNTIL_SECONDS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.live_node import RawClient

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PARTITIONS = 3


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
