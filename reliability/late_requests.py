"""Does a late request of a transaction touch the next one?

`python -m reliability.late_requests --seconds 60`: producers append the names of their transactions
to lists, one for each partition. Between them and three nodes some of the requests are held up,
for longer than their clients wait; a client dials anew, says it again and goes on, and the
old request comes amid a later transaction. In the end the lists are judged (lists.py).

Kafka's Java producer speaks the second protocol of transactions, in which each transaction has an
epoch of its own: nothing may be wrong. librdkafka speaks the first one, whose requests do not say
which transaction they mean. What is wrong there is counted, and is not a defect of the node.

Source: KIP-890; Jepsen's analyses of Bufstream 0.1.0 and Apache Kafka.
"""

import argparse
import random
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from harness.cluster import ClusterProcess
from harness.end_offsets import ends_of
from harness.results import publish
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from penstock.protocol.api_keys import ApiKey
from reliability import RESULTS
from reliability.clients.java_producer import JavaError, JavaMachine, JavaProducer
from reliability.faults.late_frames import LateFrames
from reliability.faults.switchboard import OUTSIDE
from reliability.lists import ABORTED, COMMITTED, UNKNOWN, Anomaly, Transaction, judge_lists

GOAL = "with the second protocol of transactions nothing is wrong"
QUESTION = "late_requests"
TOPIC, PARTITIONS, WRITERS, SPREAD = "lists", 6, 3, 3
LATE_SECONDS, ANSWER_MS, TIMEOUT_MS, CALL_SECONDS = 5.0, 1_000, 30_000, 10.0
LATE_SHARE = 0.04
READ_SECONDS_MAX = 60.0
TRIES = 3
KINDS = (
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
)


class Failed(Exception):
    """A call has failed: it may be said again, the transaction be aborted, or neither."""

    def __init__(self, text: str, *, is_unknown: bool, is_abortable: bool) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown
        self.is_abortable = is_abortable


class Client(Protocol):
    """A transactional producer. Every call raises Failed."""

    def begin(self) -> None:
        """Begin a transaction."""

    def append(self, place: int, name: str) -> None:
        """Append to a list."""

    def flush(self) -> None:
        """Wait until all is written."""

    def commit(self) -> None:
        """Commit."""

    def abort(self) -> None:
        """Abort."""

    def close(self) -> None:
        """End it at once."""


class JavaClient:
    """Kafka's own producer: a Client."""

    def __init__(self, machine: JavaMachine, bootstrap: str, writer: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": writer,
            "transaction.timeout.ms": str(TIMEOUT_MS),
            "request.timeout.ms": str(ANSWER_MS),
            "delivery.timeout.ms": str(int(CALL_SECONDS * 1000)),
            "max.block.ms": str(int(CALL_SECONDS * 1000)),
        }
        self._producer: JavaProducer = machine.producer(settings)
        self._call(self._producer.init)

    def begin(self) -> None:
        self._call(self._producer.begin)

    def append(self, place: int, name: str) -> None:
        self._call(self._producer.send, TOPIC, place, name)

    def flush(self) -> None:
        self._call(self._producer.flush)

    def commit(self) -> None:
        self._call(self._producer.commit)

    def abort(self) -> None:
        self._call(self._producer.abort)

    def close(self) -> None:
        with suppress(JavaError):
            self._producer.close()

    @staticmethod
    def _call(call: Any, *arguments: object) -> None:
        try:
            call(*arguments)
        except JavaError as error:
            raise Failed(
                str(error), is_unknown=error.is_timeout, is_abortable=not error.is_fatal
            ) from None


class LibrdkafkaClient:
    """confluent-kafka's producer: a Client."""

    def __init__(self, bootstrap: str, writer: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": writer,
                "transaction.timeout.ms": TIMEOUT_MS,
                "socket.timeout.ms": ANSWER_MS,
                "request.timeout.ms": ANSWER_MS,
                "log_level": 0,
            }
        )
        self._call(self._producer.init_transactions, CALL_SECONDS)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def append(self, place: int, name: str) -> None:
        self._producer.produce(TOPIC, name.encode(), partition=place)

    def flush(self) -> None:
        self._producer.flush(CALL_SECONDS)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, CALL_SECONDS)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, CALL_SECONDS)

    def close(self) -> None:
        self._producer.purge()

    @staticmethod
    def _call(call: Any, *arguments: object) -> None:
        try:
            call(*arguments)
        except KafkaException as failure:
            error = failure.args[0]
            raise Failed(
                str(error),
                is_unknown=error.retriable(),
                is_abortable=error.txn_requires_abort(),
            ) from None


def list_reader(bootstrap: str) -> Consumer:
    """Return a consumer of what is committed in all lists, from their beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, place, 0) for place in range(PARTITIONS)])
    return consumer


@dataclass(slots=True)
class Story:
    """What the writers did and heard; a transaction's name is its key."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Writer:
    """One transactional id. An instance that can not go on is replaced by a new one."""

    def __init__(self, number: int, bootstrap: str, story: Story, machine: JavaMachine | None):
        self._name = f"writer-{number}"
        self._bootstrap = bootstrap
        self._machine = machine
        self._story = story
        self._random = random.Random(number)
        self._count = 0

    def run(self, stop: threading.Event) -> None:
        """Write one transaction after the other until told to stop."""
        reader = list_reader(self._bootstrap)
        while not stop.is_set():
            client: Client | None = None
            try:
                client = self._client()
                while not stop.is_set():
                    self._transaction(client, reader)
            except Failed:
                stop.wait(0.2)
            finally:
                if client is not None:
                    client.close()
        reader.close()

    def _client(self) -> Client:
        if self._machine is None:
            return LibrdkafkaClient(self._bootstrap, self._name)
        return JavaClient(self._machine, self._bootstrap, self._name)

    def _transaction(self, client: Client, reader: Consumer) -> None:
        """Write one. Raises Failed where the instance can not go on."""
        self._count += 1
        places = tuple(self._random.sample(range(PARTITIONS), SPREAD))
        name = f"{self._name}/{self._count}"
        read = tuple(_value(message) for message in reader.consume(500, 0.05) if _is_one(message))
        each = Transaction(name, self._name, self._count, places, read=read)
        self._story.transactions[name] = each
        client.begin()
        try:
            for place in places:
                client.append(place, name)
            if self._random.random() < 0.3:
                client.flush()
                client.abort()
                return
            each.outcome = UNKNOWN
            _commit(client)
            each.outcome = COMMITTED
        except Failed as failure:
            if not failure.is_abortable or failure.is_unknown:
                raise
            client.abort()
            each.outcome = ABORTED


def _commit(client: Client) -> None:
    """Commit; said again where the outcome is unknown, as the clients' documentation asks for."""
    for attempt in range(TRIES):
        try:
            client.commit()
        except Failed as failure:
            if not failure.is_unknown or attempt == TRIES - 1:
                raise
        else:
            return


def _is_one(message: Any) -> bool:
    return message.error() is None


def _value(message: Any) -> str:
    return (message.value() or b"").decode()


class ReadingAlong:
    """A consumer that keeps all it reads, in its order."""

    def __init__(self, bootstrap: str) -> None:
        self.lists: dict[int, list[str]] = defaultdict(list)
        self._reader = list_reader(bootstrap)

    def run(self, stop: threading.Event) -> None:
        """Read until told to stop."""
        while not stop.is_set():
            self._take(0.1)
        self._reader.close()

    def read_all(self) -> bool:
        """Read to the end that is now; return whether it was reached."""
        ends = ends_of(self._reader, TOPIC, PARTITIONS)
        deadline = time.monotonic() + READ_SECONDS_MAX
        # A consumer has no position in a partition that nothing was written to.
        asked = [TopicPartition(TOPIC, place) for place, end in ends.items() if end]
        while time.monotonic() < deadline:
            self._take(0.2)
            if all(one.offset >= ends[one.partition] for one in self._reader.position(asked)):
                self._reader.close()
                return True
        return False

    def _take(self, seconds: float) -> None:
        for message in self._reader.consume(1000, seconds):
            if _is_one(message):
                self.lists[message.partition() or 0].append(_value(message))


def run_late(client: str, seconds: float, seed: int = 1) -> dict[str, object]:
    """Let a client ("java" or "librdkafka") write through late requests; returns the row."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-late-"))
    story, stop = Story(), threading.Event()
    with ExitStack() as stack:
        cluster = ClusterProcess(directory, advertised_host=OUTSIDE)
        kafka = {node.port for node in cluster.nodes.values()}
        between = LateFrames(kafka, set(cluster.ports) - kafka, LATE_SECONDS, seed)
        stack.enter_context(between)
        stack.enter_context(cluster)
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        machine = stack.enter_context(JavaMachine()) if client == "java" else None
        along = ReadingAlong(cluster.bootstrap)
        writers = [Writer(number, cluster.bootstrap, story, machine) for number in range(WRITERS)]
        threads = [
            threading.Thread(target=run, args=(stop,))
            for run in (along.run, *(writer.run for writer in writers))
        ]
        for thread in threads:
            thread.start()
        between.hold_up(KINDS, LATE_SHARE)
        stop.wait(seconds)
        between.hold_up((), 0.0)
        stop.set()
        for thread in threads:
            thread.join(10 * CALL_SECONDS)
        time.sleep(LATE_SECONDS)
        last = ReadingAlong(cluster.bootstrap)
        is_read = last.read_all()
    found = judge_lists(story.transactions, last.lists, along.lists) if is_read else []
    if not is_read:
        found.append(Anomaly("hanging", "the lists can not be read to their end"))
    if not found:
        shutil.rmtree(directory, ignore_errors=True)
    return _row(client, story, between, found)


def _row(client: str, story: Story, between: LateFrames, found: list[Anomaly]) -> dict[str, object]:
    outcomes = Counter(each.outcome for each in story.transactions.values())
    kinds = Counter(anomaly.kind for anomaly in found)
    told = "; ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
    return {
        "client": client,
        "transactions": len(story.transactions),
        "committed": outcomes[COMMITTED],
        "unknown": outcomes[UNKNOWN],
        "late requests": ", ".join(f"{n} {kind}" for kind, n in sorted(between.late.items())),
        "wrong": told or "nothing",
        "such as": found[0].text if found else "",
    }


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    seconds = 20.0 if quick else 120.0
    rows = [run_late(client, seconds) for client in ("java", "librdkafka")]
    publish(RESULTS, QUESTION, rows, goal=GOAL)


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m reliability.{QUESTION}", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", choices=("java", "librdkafka"), default="java")
    arguments = parser.parse_args()
    row = run_late(arguments.client, arguments.seconds, arguments.seed)
    publish(RESULTS, QUESTION, [row], goal=GOAL)
    return 0 if row["wrong"] == "nothing" or arguments.client == "librdkafka" else 1


if __name__ == "__main__":
    end_with(main)
