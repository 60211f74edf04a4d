"""Do transactions of a stock client stay whole through the kills of coordinators and masters?

`python -m reliability.transaction_failovers --kills 50`: producers of librdkafka write numbered
transactions, each to three of six partitions, commit some and abort others, while nodes are killed
with -9 and started again. In the end, as read by a consumer of committed records: a committed
transaction is there whole and once, an aborted one not at all, one whose end nobody heard whole or
not at all; and no partition keeps a transaction open. Beside them one client moves records with its
positions (moving.py): every second kill is that of the node that coordinates its group.
"""

import random
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.end_offsets import end_of, ends_of
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.waiting import wait_until
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from reliability.kill_question import KillQuestion
from reliability.moving import (
    GROUP,
    PLACES,
    SOURCE,
    TARGET,
    Mover,
    committed_positions,
    fill,
    judge_moved,
)

GOAL = "no transaction half visible, none hanging after its time-out, 0 lost, 0 double"
TOPIC, PARTITIONS, WRITERS, SPREAD = "in-transactions", 6, 3, 3
TIMEOUT_MS = 10_000
CALL_SECONDS = 30.0
BETWEEN_SECONDS = 1.0
HANGING_SECONDS = TIMEOUT_MS / 1000 + 10
END_SECONDS_MAX = 120.0
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass(slots=True)
class Story:
    """What the writers did and heard."""

    partitions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each transaction, by its name."""
    outcomes: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Writer:
    """One transactional id. An instance that can not go on is replaced by a new one."""

    def __init__(self, cluster: ClusterProcess, number: int, story: Story) -> None:
        self._cluster = cluster
        self._name = f"writer-{number}"
        self._story = story
        self._random = random.Random(number)
        self._count = 0

    def run(self, stop: threading.Event) -> None:
        """Write one transaction after the other until told to stop."""
        while not stop.is_set():
            try:
                self._instance(stop)
            except KafkaException:
                stop.wait(0.2)

    def _instance(self, stop: threading.Event) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "transactional.id": self._name,
                "transaction.timeout.ms": TIMEOUT_MS,
                "log_level": 0,
            }
        )
        producer.init_transactions(CALL_SECONDS)
        while not stop.is_set():
            self._transaction(producer)

    def _transaction(self, producer: Producer) -> None:
        """Write one. Raises KafkaException where the instance can not go on."""
        self._count += 1
        name = f"{self._name}/{self._count}"
        places = tuple(self._random.sample(range(PARTITIONS), SPREAD))
        commits = self._random.random() < 0.7
        self._story.partitions[name] = places
        self._story.outcomes[name] = UNKNOWN
        producer.begin_transaction()
        try:
            for place in places:
                producer.produce(TOPIC, name.encode(), partition=place)
            if not commits:
                producer.flush(CALL_SECONDS)
                producer.abort_transaction(CALL_SECONDS)
                self._story.outcomes[name] = ABORTED
                return
            producer.commit_transaction(CALL_SECONDS)
            self._story.outcomes[name] = COMMITTED
        except KafkaException as failure:
            error = failure.args[0]
            if not error.txn_requires_abort():
                raise
            producer.abort_transaction(CALL_SECONDS)
            self._story.outcomes[name] = ABORTED


def read_all(
    bootstrap: str, topic: str = TOPIC, partitions: int = PARTITIONS
) -> tuple[dict[int, Counter[str]], list[str]]:
    """Return what a consumer of committed records reads of each partition, and what hangs."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "judge", "log_level": 0}
    plain = Consumer({**settings, "isolation.level": "read_uncommitted"})
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    # A consumer has no position in a partition that nothing was written to.
    ends = {place: end for place, end in ends_of(plain, topic, partitions).items() if end}
    plain.close()
    hanging = _hanging(consumer, topic, ends)
    found: dict[int, Counter[str]] = defaultdict(Counter)
    consumer.assign([TopicPartition(topic, place, 0) for place in ends])
    deadline = time.monotonic() + END_SECONDS_MAX
    while not hanging and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                found[message.partition() or 0][(message.value() or b"").decode()] += 1
        places = consumer.position([TopicPartition(topic, place) for place in ends])
        if all(each.offset >= ends[each.partition] for each in places):
            break
    else:
        hanging = hanging or ["not read to the end"]
    consumer.close()
    return found, hanging


def _hanging(consumer: Consumer, topic: str, ends: dict[int, int]) -> list[str]:
    """Return the partitions whose last stable offset does not reach their end in time."""
    deadline = time.monotonic() + HANGING_SECONDS
    left = dict(ends)
    while left and time.monotonic() < deadline:
        for place, end in list(left.items()):
            if end_of(consumer, topic, place) >= end:
                del left[place]
        time.sleep(0.2)
    return [f"a transaction is open in {topic} partition {place}" for place in left]


def _coordinator_of(bootstrap: str, *, otherwise: int) -> int:
    """Return the node that coordinates the mover's group; while there is none, another one."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        described = admin.describe_consumer_groups([GROUP], request_timeout=CALL_SECONDS)
        found: int = described[GROUP].result(CALL_SECONDS).coordinator.id
    except KafkaException:
        return otherwise
    return found


def judge(story: Story, found: dict[int, Counter[str]]) -> list[str]:
    """Return what was read and should not have been, and the reverse."""
    problems: list[str] = []
    for name, places in story.partitions.items():
        counts = {place: found[place][name] for place in range(PARTITIONS) if found[place][name]}
        outcome = story.outcomes[name]
        is_there = counts == dict.fromkeys(places, 1)
        if counts and not is_there:
            problems.append(f"{name} of partitions {places} ({outcome}) is read as {counts}")
        elif outcome == COMMITTED and not is_there:
            problems.append(f"{name} was committed and is lost")
        elif outcome == ABORTED and counts:
            problems.append(f"{name} was aborted and is read")
    return problems


def run_kills(kills: int, seed: int = 1) -> dict[str, object]:
    """Take a cluster of three through so many kills; returns the row."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-transactions-"))
    story, stop, draw = Story(), threading.Event(), random.Random(seed)
    with ClusterProcess(directory) as cluster:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        for name in (SOURCE, TARGET):
            create_topic(cluster.bootstrap, name, PLACES)
        fill(cluster.bootstrap)
        mover = Mover(cluster.bootstrap, TIMEOUT_MS, CALL_SECONDS)
        writers = [Writer(cluster, number, story) for number in range(WRITERS)]
        threads = [
            threading.Thread(target=run, args=(stop,))
            for run in (mover.run, *(writer.run for writer in writers))
        ]
        for thread in threads:
            thread.start()
        done = 0
        for _ in range(kills):
            time.sleep(BETWEEN_SECONDS)
            if not wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX):
                story.problems.append(f"not whole again after {done} kills")
                break
            victim = draw.choice(sorted(cluster.nodes))
            if done % 2 == 0:
                victim = _coordinator_of(cluster.bootstrap, otherwise=victim)
            cluster.nodes[victim].kill()
            time.sleep(BETWEEN_SECONDS * draw.random())
            cluster.nodes[victim].launch()
            done += 1
        time.sleep(BETWEEN_SECONDS)
        wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX)
        stop.set()
        for thread in threads:
            thread.join(4 * CALL_SECONDS)
            if thread.is_alive():
                story.problems.append("a client stands in a call beyond its time-out")
        found, hanging = read_all(cluster.bootstrap)
        story.problems += hanging or judge(story, found)
        moved, hanging = read_all(cluster.bootstrap, TARGET, PLACES)
        positions = committed_positions(cluster.bootstrap, CALL_SECONDS)
        story.problems += hanging or judge_moved(positions, moved)
    if not story.problems:
        shutil.rmtree(directory, ignore_errors=True)
    outcomes = Counter(story.outcomes.values())
    return {
        "client": "librdkafka",
        "kills": done,
        **{outcome: outcomes[outcome] for outcome in (COMMITTED, ABORTED, UNKNOWN)},
        "records moved": sum(positions.values()),
        "moves": mover.moved.committed,
        "moves aborted": mover.moved.aborted,
        "verdict": "; ".join(story.problems[:5]) or "ok",
    }


KILLS = KillQuestion("transaction_failovers", GOAL, run_kills, few=3)
run = KILLS.run


if __name__ == "__main__":
    end_with(lambda: KILLS.main(__doc__))
