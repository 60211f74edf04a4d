"""One member of a consumer group, a process that can be killed; says on stdout what it does.

`python -m reliability.clients.group_member CLIENT BOOTSTRAP TOPIC GROUP`: one line of JSON for each
thing that happens, with the machine's monotonic time. `owned` lists the partitions it has from now
on, `read` one poll's records as (partition, number), `committed` what the broker acknowledged. It
commits after each poll, and ends with its standard input.
"""

import asyncio
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.cli.exit_codes import end_with

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaError

    from kafka import ConsumerRebalanceListener, KafkaConsumer

SESSION_MS = 10_000
POLL_SECONDS = 0.2
Numbers = Iterable[tuple[int, int]]


def say(kind: str, **fields: object) -> None:
    """Print one event."""
    print(json.dumps({"kind": kind, "at_ns": time.monotonic_ns(), **fields}), flush=True)


CLASSIC = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 500,
    "partition.assignment.strategy": "range",
}
ASSIGNED_BY_COORDINATOR = {"group.protocol": "consumer"}


def librdkafka(bootstrap: str, topic: str, group: str, stop: threading.Event) -> None:
    _librdkafka(bootstrap, topic, group, stop, CLASSIC)


def librdkafka_848(bootstrap: str, topic: str, group: str, stop: threading.Event) -> None:
    """The same with the consumer group protocol (KIP-848), which gives and takes step by step."""
    _librdkafka(bootstrap, topic, group, stop, ASSIGNED_BY_COORDINATOR)


def _librdkafka(
    bootstrap: str, topic: str, group: str, stop: threading.Event, settings: dict[str, Any]
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 300,
            "log_level": 0,
            **settings,
        }
    )
    owned: set[int] = set()

    def given(_: Consumer, partitions: list[TopicPartition]) -> None:
        if settings is not ASSIGNED_BY_COORDINATOR:
            owned.clear()
        owned.update(each.partition for each in partitions)
        say("owned", partitions=sorted(owned))

    def taken(_: Consumer, partitions: list[TopicPartition]) -> None:
        owned.difference_update(each.partition for each in partitions)
        say("owned", partitions=sorted(owned))

    consumer.subscribe([topic], on_assign=given, on_revoke=taken, on_lost=taken)
    while not stop.is_set():
        found = [each for each in consumer.consume(500, POLL_SECONDS) if each.error() is None]
        if not found:
            continue
        say("read", records=[(each.partition(), int(each.value() or b"")) for each in found])
        try:
            done = consumer.commit(asynchronous=False) or []
        except KafkaException as error:
            say("refused", reason=str(error))
        else:
            say("committed", offsets=[(p.partition, p.offset) for p in done if p.error is None])
    consumer.close()


def kafka_python(bootstrap: str, topic: str, group: str, stop: threading.Event) -> None:
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            say("owned", partitions=[])

        def on_partitions_assigned(self, assigned: Any) -> None:
            say("owned", partitions=sorted(each.partition for each in assigned))

    consumer: Any = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        retry_backoff_ms=50,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stop.is_set():
        found = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        if not found:
            continue
        said = [(p.partition, int(r.value)) for p, records in found.items() for r in records]
        say("read", records=said)
        try:
            consumer.commit()
        except KafkaError as error:
            say("refused", reason=str(error))
        else:
            ends = [(p.partition, records[-1].offset + 1) for p, records in found.items()]
            say("committed", offsets=ends)
    consumer.close()


def aiokafka(bootstrap: str, topic: str, group: str, stop: threading.Event) -> None:
    asyncio.run(_aiokafka(bootstrap, topic, group, stop))


async def _aiokafka(bootstrap: str, topic: str, group: str, stop: threading.Event) -> None:
    class Listener(AioListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            say("owned", partitions=[])

        async def on_partitions_assigned(self, assigned: Any) -> None:
            say("owned", partitions=sorted(each.partition for each in assigned))

    consumer: Any = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stop.is_set():
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        if not found:
            continue
        said = [(p.partition, int(r.value)) for p, records in found.items() for r in records]
        say("read", records=said)
        ends = {p: records[-1].offset + 1 for p, records in found.items()}
        try:
            await consumer.commit(ends)
        except AioError as error:
            say("refused", reason=str(error))
        else:
            say("committed", offsets=[(p.partition, end) for p, end in ends.items()])
    await consumer.stop()


CLIENTS: dict[str, Callable[[str, str, str, threading.Event], None]] = {
    "librdkafka": librdkafka,
    "librdkafka-848": librdkafka_848,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main() -> int:
    """Run one member until standard input ends."""
    client, bootstrap, topic, group = sys.argv[1:]
    stop = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=until_told, daemon=True).start()
    CLIENTS[client](bootstrap, topic, group, stop)
    return 0


if __name__ == "__main__":
    end_with(main)
