"""How exactly is a quota kept over half a minute?

    python -m benchmarks quotas                                   # a megabyte a second
    python -m benchmarks.quotas --rate 500000000 --batch 262144   # bytes alone, on a fast machine

One client each does as much as it is let: it produces, fetches, asks for metadata, or creates
topics. What it gets is counted at the client (bytes of batches, topics) or at the node (time of
handlers), after three seconds in which the quota begins to hold it back. A quota is that of one
node, so there is one.
"""

import argparse
import itertools
import re
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import RESULTS
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from benchmarks.parts.topics import temporary_topic
from harness.node import NodeProcess
from harness.results import publish, show
from penstock.cli.exit_codes import end_with
from penstock.client.cluster import Cluster
from penstock.client.quotas import Quotas
from penstock.client.settings import ClientSettings
from penstock.quotas.entities import entity_of

GOAL: Final = "within 5 % over 30 s"
RATE: Final = 1_000_000
BATCH: Final = 65_536
VALUE_BYTES: Final = 8_000
RECORD_BYTES: Final = VALUE_BYTES + 14
"""With lengths and deltas; the headers of batches and requests are a thousandth."""
PERCENT: Final = 2.0
MUTATIONS: Final = 5.0
MUTATIONS_AT_ONCE_SECONDS: Final = 11
"""So many seconds' worth may be used at once."""
SECONDS: Final = 30.0
WARM_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 0.05
_HANDLED = re.compile(
    r'^penstock_request_stage_seconds_sum\{api="metadata",stage="local"\} (\S+)', re.MULTILINE
)

Row = dict[str, object]


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    seconds = SECONDS / 3 if quick else SECONDS
    with temporary_node(PAGE_CACHE) as node:
        rows = bytes_rows(node, RATE, BATCH, seconds)
        rows.append(row("request_percentage", PERCENT, _request_time(node, seconds)))
        rows.append(row("controller_mutation_rate", MUTATIONS, _mutations(node, seconds)))
    publish(RESULTS, "quotas", rows, goal=GOAL)


def main(given: Sequence[str] | None = None) -> int:
    """Measure bytes at a rate of one's own; 1 if it is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quotas", description=__doc__)
    parser.add_argument("--rate", type=int, default=RATE, help="bytes a second")
    parser.add_argument("--batch", type=int, default=BATCH, help="bytes of a batch")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_args(given)
    with temporary_node(PAGE_CACHE) as node:
        rows = bytes_rows(node, arguments.rate, arguments.batch, arguments.seconds)
    show("quotas", rows, goal=GOAL)
    return 0 if all(abs(float(str(one["off by %"]))) <= 5 for one in rows) else 1


def bytes_rows(node: NodeProcess, rate: int, batch: int, seconds: float) -> list[Row]:
    """Return what a producer and a consumer get of so many bytes a second."""
    with temporary_topic(node.bootstrap) as topic:
        produced = _produce(node, topic, rate, batch, seconds)
        _fill(node, topic, int(rate * (seconds + 3 * WARM_SECONDS)), batch)
        fetched = _fetch(node, topic, rate, seconds)
    return [
        row("producer_byte_rate", float(rate), produced),
        row("consumer_byte_rate", float(rate), fetched),
    ]


def row(quota: str, wanted: float, got: float) -> Row:
    """Return what is told of a quota."""
    off = 100 * (got - wanted) / wanted
    return {"quota": quota, "set to": wanted, "got": got, "off by %": round(off, 2)}


def _limit(node: NodeProcess, name: str, **values: float) -> None:
    """Set the quotas of a client id, which has the name of one."""
    with Cluster(ClientSettings(bootstrap=node.bootstrap)) as cluster:
        Quotas(cluster).alter(entity_of([("client-id", name)]), dict(values))


def _producer(node: NodeProcess, client_id: str, batch: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": client_id,
            "batch.size": batch,
            "linger.ms": 5,
            "request.timeout.ms": 60_000,
            "queue.buffering.max.kbytes": max(16 * batch // 1024, 4_096),
        }
    )


def _produce(node: NodeProcess, topic: str, rate: int, batch: int, seconds: float) -> float:
    """Return the bytes a second of what is acknowledged."""
    _limit(node, "producer", producer_byte_rate=float(rate))
    acknowledged = itertools.count()
    taken = 0

    def note(error: object, _: object) -> None:
        nonlocal taken
        if error is None:
            taken = next(acknowledged) + 1

    producer, value = _producer(node, "producer", batch), b"x" * VALUE_BYTES

    def step() -> None:
        try:
            producer.produce(topic, value, on_delivery=note)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)

    measured = _measured(step, lambda: taken * RECORD_BYTES, seconds)
    producer.purge()
    producer.flush(ANSWER_SECONDS)
    return measured


def _fill(node: NodeProcess, topic: str, size: int, batch: int) -> None:
    """Write so many bytes without a quota."""
    producer, value = _producer(node, "filler", batch), b"x" * VALUE_BYTES
    for _ in range(size // VALUE_BYTES + 1):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(ANSWER_SECONDS) == 0, "all is written"


def _fetch(node: NodeProcess, topic: str, rate: int, seconds: float) -> float:
    """Return the bytes a second of what is fetched."""
    _limit(node, "consumer", consumer_byte_rate=float(rate))
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "client.id": "consumer",
            "group.id": "consumer",
            "queued.max.messages.kbytes": max(1_024, rate // 1_024),  # a second of it
            "fetch.queue.backoff.ms": 5,
            "check.crcs": False,
        }
    )
    taken = 0

    def step() -> None:
        nonlocal taken
        taken += len(consumer.consume(1_000, 0.01))

    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return _measured(step, lambda: taken * RECORD_BYTES, seconds)
    finally:
        consumer.close()


def _request_time(node: NodeProcess, seconds: float) -> float:
    """Return the percentage of one thread that a client's requests have had."""
    _limit(node, "asker", request_percentage=PERCENT)
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "client.id": "asker"})

    def handled() -> float:
        url = f"http://127.0.0.1:{node.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as page:
            found = _HANDLED.search(page.read().decode())
        return 0.0 if found is None else 100 * float(found[1])

    return _measured(lambda: admin.list_topics(timeout=ANSWER_SECONDS), handled, seconds)


def _mutations(node: NodeProcess, seconds: float) -> float:
    """Return how many topics a second are created, once what may be used at once is used."""
    _limit(node, "creator", controller_mutation_rate=MUTATIONS)
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "client.id": "creator"})
    names = (f"made-{number}" for number in itertools.count())
    made = 0
    name = next(names)

    def step() -> None:
        nonlocal made, name
        (work,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
        try:
            work.result(ANSWER_SECONDS)
        except KafkaException:
            time.sleep(RETRY_SECONDS)
            return
        made, name = made + 1, next(names)

    while made < MUTATIONS * MUTATIONS_AT_ONCE_SECONDS:
        step()
    return _measured(step, lambda: made, seconds)


def _measured(step: Callable[[], Any], count: Callable[[], float], seconds: float) -> float:
    """Return how much a second comes of doing a step again and again."""
    _until(time.monotonic() + WARM_SECONDS, step)
    begun, before = time.monotonic(), count()
    _until(begun + seconds, step)
    return (count() - before) / (time.monotonic() - begun)


def _until(end: float, step: Callable[[], Any]) -> None:
    while time.monotonic() < end:
        step()


if __name__ == "__main__":
    end_with(main)
