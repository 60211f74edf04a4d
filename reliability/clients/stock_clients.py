"""Clients that others wrote, each writing numbered records with acks=all and reading them back.

All have one shape: a function that writes until it is told to stop, and returns the numbers that
were acknowledged; and one that reads so many records of a topic from its beginning. Retries are the
client's own: what it reports as failed may be in the log, what it reports as written must be.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

PAUSE_SECONDS = 0.01
READ_SECONDS = 60.0
TIMEOUT_MS = 30_000

Stop = threading.Event
Write = Callable[[str, str, Stop, list[int]], None]
Read = Callable[[str, str, int], list[int]]


class StockClient(NamedTuple):
    """One library. `write(bootstrap, topic, stop, acked)`, `read(bootstrap, topic, count)`."""

    name: str
    write: Write
    read: Read


def librdkafka_write(bootstrap: str, topic: str, stop: Stop, acked: list[int]) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acked.append(int(bytes(message.value() or b"")))

    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    number = 0
    while not stop.is_set():
        producer.produce(topic, str(number).encode(), partition=0, on_delivery=delivered)
        number += 1
        producer.poll(PAUSE_SECONDS)
    producer.flush(TIMEOUT_MS / 1000)


def _librdkafka_read(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "stock", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    deadline = time.monotonic() + READ_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        found += [
            int(bytes(message.value() or b""))
            for message in consumer.consume(1000, 0.5)
            if message.error() is None
        ]
    consumer.close()
    return found


def _kafka_python_write(bootstrap: str, topic: str, stop: Stop, acked: list[int]) -> None:
    producer: Any = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, retry_backoff_ms=50
    )
    waiting: list[tuple[int, Any]] = []
    number = 0
    while not stop.is_set():
        waiting.append((number, producer.send(topic, str(number).encode(), partition=0)))
        number += 1
        time.sleep(PAUSE_SECONDS)
    producer.flush(TIMEOUT_MS / 1000)
    acked += [number for number, report in waiting if report.succeeded()]
    producer.close()


def _kafka_python_read(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found: list[int] = []
    deadline = time.monotonic() + READ_SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            found += [int(record.value) for record in records]
    consumer.close()
    return found


def _aiokafka_write(bootstrap: str, topic: str, stop: Stop, acked: list[int]) -> None:
    async def write() -> None:
        producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        waiting: list[tuple[int, Any]] = []
        number = 0
        while not stop.is_set():
            report = await producer.send(topic, str(number).encode(), partition=0)
            waiting.append((number, report))
            number += 1
            await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.wait_for(producer.flush(), TIMEOUT_MS / 1000)
        acked.extend(
            number
            for number, report in waiting
            if report.done() and not report.cancelled() and report.exception() is None
        )
        await producer.stop()

    asyncio.run(write())


def _aiokafka_read(bootstrap: str, topic: str, count: int) -> list[int]:
    async def read() -> list[int]:
        consumer: Any = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        partition = AioTopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found: list[int] = []
        deadline = time.monotonic() + READ_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [int(record.value) for record in records]
        await consumer.stop()
        return found

    return asyncio.run(read())


STOCK_CLIENTS = (
    StockClient("librdkafka", librdkafka_write, _librdkafka_read),
    StockClient("kafka-python", _kafka_python_write, _kafka_python_read),
    StockClient("aiokafka", _aiokafka_write, _aiokafka_read),
)
