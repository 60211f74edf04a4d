"""What one client writes with a codec, every other one reads as it was written."""

import asyncio
import warnings
from collections.abc import Callable
from typing import NamedTuple, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.waiting import UNTIL_SECONDS
from tests.compat.conftest import CODECS
from tests.compat.java_tools import tool

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonPartition

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Headers = tuple[tuple[str, bytes], ...]


class Record(NamedTuple):
    """What a client can tell of a record, as the console tools can show it: in letters."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


WRITTEN = [
    *(
        Record(b"key %d" % n, b"value %d " % n + b"abc" * n, (("n", b"%d" % n),), 5_000 + n)
        for n in range(150)
    ),
    Record(b"gone", None, (("of", b"a tombstone"),), 6_000),
    Record(b"empty", b"", (("h", b""),), 6_001),
    Record(b"long", b"0123456789" * 20_000, (("h", b"1"), ("h", b"2")), 6_002),
]


def librdkafka_writes(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    refused: list[object] = []
    for key, value, headers, timestamp in WRITTEN:
        producer.produce(
            topic,
            value,
            key,
            partition=0,
            headers=[*headers],
            timestamp=timestamp,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(UNTIL_SECONDS) == 0
    assert not refused


def librdkafka_reads(bootstrap: str, topic: str) -> list[Record]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken: list[Record] = []
    while len(taken) < len(WRITTEN):
        for message in consumer.consume(len(WRITTEN) - len(taken), 30):
            assert message.error() is None, message.error()
            headers = tuple(
                (name, value or b"") for name, value in cast("Headers", message.headers() or [])
            )
            taken.append(Record(message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    return taken


def kafka_python_writes(bootstrap: str, topic: str, codec: str) -> None:
    chosen = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=chosen, linger_ms=20)
    waiting = [
        producer.send(
            topic,
            value,
            key=key,
            partition=0,
            headers=[*headers],
            timestamp_ms=timestamp,
        )
        for key, value, headers, timestamp in WRITTEN
    ]
    for report in waiting:
        report.get(UNTIL_SECONDS)
    producer.close(timeout=UNTIL_SECONDS)


def kafka_python_reads(bootstrap: str, topic: str) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, check_crcs=True)
    partition = PythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    taken: list[Record] = []
    while len(taken) < len(WRITTEN):
        taken += [
            Record(each.key, each.value, tuple(each.headers), each.timestamp)
            for each in consumer.poll(30_000).get(partition, ())
        ]
    consumer.close()
    return taken


def aiokafka_writes(bootstrap: str, topic: str, codec: str) -> None:
    chosen = None if codec == "none" else codec

    async def story() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=chosen, linger_ms=20
        ) as producer:
            waiting = [
                await producer.send(
                    topic, value, key, partition=0, headers=[*headers], timestamp_ms=timestamp
                )
                for key, value, headers, timestamp in WRITTEN
            ]
            await asyncio.gather(*waiting)

    asyncio.run(story())


def aiokafka_reads(bootstrap: str, topic: str) -> list[Record]:
    async def story() -> list[Record]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, check_crcs=True) as consumer:
            consumer.assign([AioPartition(topic, 0)])
            await consumer.seek_to_beginning()
            taken = [await consumer.getone() for _ in WRITTEN]
        return [Record(one.key, one.value, tuple(one.headers), one.timestamp) for one in taken]

    return asyncio.run(story())


_NULL = "(null)"
"""What the console tools take for no value, and show for it."""


def java_writes(bootstrap: str, topic: str, codec: str) -> None:
    """It can not choose times: those of its records are when they were sent."""
    lines = "".join(
        ",".join(f"{name}:{value.decode()}" for name, value in one.headers)
        + f"\t{(one.key or b'').decode()}\t"
        + (_NULL if one.value is None else one.value.decode())
        + "\n"
        for one in WRITTEN
    )
    reader = ("parse.headers=true", "parse.key=true", f"null.marker={_NULL}")
    flags = [flag for each in reader for flag in ("--property", each)]
    at = ("--bootstrap-server", bootstrap, "--topic", topic)
    tool("kafka-console-producer", *at, *flags, "--compression-codec", codec, stdin=lines)


def java_reads(bootstrap: str, topic: str) -> list[Record]:
    shown = [f"print.{what}=true" for what in ("key", "headers", "timestamp")]
    flags = [flag for each in (*shown, f"null.literal={_NULL}") for flag in ("--property", each)]
    at = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0")
    limits = ("--offset", "earliest", "--max-messages", str(len(WRITTEN)), "--timeout-ms", "30000")
    printed = tool("kafka-console-consumer", *at, *limits, *flags)
    return [_shown(line) for line in printed.splitlines() if line.startswith("CreateTime:")]


def _shown(line: str) -> Record:
    time, headers, key, value = line.split("\t")
    pairs = [each.partition(":") for each in headers.split(",")]
    return Record(
        key.encode(),
        None if value == _NULL else value.encode(),
        tuple((name, said.encode()) for name, _, said in pairs),
        int(time.removeprefix("CreateTime:")),
    )


Write = Callable[[str, str, str], None]
Read = Callable[[str, str], list[Record]]
IN_PYTHON: dict[str, tuple[Write, Read]] = {
    "librdkafka": (librdkafka_writes, librdkafka_reads),
    "kafka-python": (kafka_python_writes, kafka_python_reads),
    "aiokafka": (aiokafka_writes, aiokafka_reads),
}


@pytest.fixture
def one_partition(bootstrap: str, name: str) -> str:
    """A new topic whose records have one order."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(UNTIL_SECONDS)
    return name


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", [*IN_PYTHON])
def test_what_one_client_writes_every_client_reads(
    bootstrap: str, one_partition: str, writer: str, codec: str
) -> None:
    IN_PYTHON[writer][0](bootstrap, one_partition, codec)
    for name, (_, read) in IN_PYTHON.items():
        assert read(bootstrap, one_partition) == WRITTEN, name


@pytest.mark.compat
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", [*IN_PYTHON])
def test_what_others_write_the_java_client_reads(
    bootstrap: str, one_partition: str, writer: str, codec: str
) -> None:
    IN_PYTHON[writer][0](bootstrap, one_partition, codec)
    assert java_reads(bootstrap, one_partition) == WRITTEN


@pytest.mark.compat
@pytest.mark.parametrize("codec", CODECS)
def test_what_the_java_client_writes_every_client_reads(
    bootstrap: str, one_partition: str, codec: str
) -> None:
    java_writes(bootstrap, one_partition, codec)
    seen = java_reads(bootstrap, one_partition)
    assert [one[:3] for one in seen] == [one[:3] for one in WRITTEN]
    for name, (_, read) in IN_PYTHON.items():
        assert read(bootstrap, one_partition) == seen, name
