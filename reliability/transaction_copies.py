"""Does Kafka's own copier copy each record once, through kills of nodes and of itself?

`python -m reliability.transaction_copies --rounds 100`: `TransactionalMessageCopier` of Kafka's
tools reads a topic and writes another one; each of its transactions has the records and the
consumer's positions, and some it aborts by chance. In each round new records are there to be
copied, by two members of a group or by one copier for each partition, and meanwhile a node or a
copier is killed with -9 and started again. After each round a consumer of committed records has
read each value once.

Source: Kafka's system tests, `transactions_test.py`.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.maven import jars
from harness.results import publish
from harness.waiting import wait_until
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from reliability import RESULTS

GOAL = "in = out in every round: 0 lost, 0 double"
QUESTION = "transaction_copies"
INPUT, OUTPUT, PARTITIONS, COPIERS = "copied-from", "copied-to", 2, 2
RECORDS_PER_ROUND, RECORDS_PER_TRANSACTION = 10_000, 100
TIMEOUT_MS = 20_000
ROUND_SECONDS_MAX = 180.0
READ_SECONDS_MAX = 60.0
_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
_JVM = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@dataclass(slots=True)
class Copier:
    """A copier that is started again until it has copied everything that was there."""

    bootstrap: str
    class_path: str
    number: int
    is_in_group: bool
    starts: int = 0
    is_done: bool = False
    _process: "subprocess.Popen[bytes] | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: threading.Event) -> None:
        """Copy; returns when all is copied, or when told to stop."""
        mode = ("--group-mode", "--use-group-metadata") if self.is_in_group else ()
        command = [
            *(*_JVM, "-cp", self.class_path, _COPIER, "--enable-random-aborts", *mode),
            *("--input-topic", INPUT, "--input-partition", str(self.number)),
            *("--output-topic", OUTPUT, "--broker-list", self.bootstrap),
            *("--transactional-id", f"copier-{self.number}", "--consumer-group", "copiers"),
            *("--transaction-size", str(RECORDS_PER_TRANSACTION)),
            *("--transaction-timeout", str(TIMEOUT_MS)),
        ]
        while not self.is_done and not stop.is_set():
            with self._lock:
                self._process = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            self.starts += 1
            self.is_done = self._process.wait() == 0

    def kill(self) -> None:
        """End it with -9; `run` starts it again."""
        with self._lock:
            if self._process is not None:
                self._process.kill()


class Judge:
    """Reads what is committed in the topic that is copied to."""

    def __init__(self, bootstrap: str) -> None:
        self.found: Counter[int] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(OUTPUT, place, 0) for place in range(PARTITIONS)])

    def read(self, wanted: int) -> None:
        """Read until there are so many values, and then whatever else comes within a second."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        last = time.monotonic()
        while time.monotonic() < (deadline if self.found.total() < wanted else last + 1.0):
            for message in self._consumer.consume(1_000, 0.2):
                if message.error() is None:
                    self.found[int(message.value() or b"-1")] += 1
                    last = time.monotonic()

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()


def judge_copies(found: Counter[int], wanted: int) -> list[str]:
    """Say which of the values 0 to `wanted` (exclusive) are not there once, and what else is."""
    told = {
        "lost": [value for value in range(wanted) if not found[value]],
        "double": [value for value, count in found.items() if count > 1],
        "of nobody": [value for value in found if not 0 <= value < wanted],
    }
    return [
        f"{len(some)} values are {what}, such as {some[0]}" for what, some in told.items() if some
    ]


def fill(bootstrap: str, first: int) -> None:
    """Write the records of a round."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in range(first, first + RECORDS_PER_ROUND):
        producer.produce(INPUT, str(value).encode(), partition=value % PARTITIONS)
    if producer.flush(READ_SECONDS_MAX):
        raise RuntimeError("the records of a round were not taken")


def copy_round(cluster: ClusterProcess, draw: random.Random, *, is_in_group: bool) -> list[str]:
    """Let the copiers copy what is there, with one kill meanwhile; return what went wrong."""
    found = jars("kafka-tools")
    assert not isinstance(found, str)
    class_path = ":".join(str(jar) for jar in found)
    copiers = [
        Copier(cluster.bootstrap, class_path, number, is_in_group) for number in range(COPIERS)
    ]
    stop = threading.Event()
    threads = [threading.Thread(target=copier.run, args=(stop,)) for copier in copiers]
    for thread in threads:
        thread.start()
    time.sleep(1.0 + 3.0 * draw.random())
    if draw.random() < 0.5:
        victim = cluster.nodes[draw.choice(sorted(cluster.nodes))]
        victim.kill()
        time.sleep(draw.random())
        victim.launch()
    else:
        draw.choice(copiers).kill()
    deadline = time.monotonic() + ROUND_SECONDS_MAX
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    stop.set()
    late = [copier for copier in copiers if not copier.is_done]
    for copier in late:
        copier.kill()
    for thread in threads:
        thread.join()
    return [f"copier {one.number} has not ended in {ROUND_SECONDS_MAX:.0f} s" for one in late]


def run_rounds(rounds: int, seed: int = 1) -> dict[str, object]:
    """Copy in so many rounds; returns the row."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-copies-"))
    draw = random.Random(seed)
    problems: list[str] = []
    done = 0
    with ClusterProcess(directory) as cluster:
        create_topic(cluster.bootstrap, INPUT, PARTITIONS)
        create_topic(cluster.bootstrap, OUTPUT, PARTITIONS)
        judge = Judge(cluster.bootstrap)
        for turn in range(rounds):
            fill(cluster.bootstrap, turn * RECORDS_PER_ROUND)
            problems = copy_round(cluster, draw, is_in_group=turn % 2 == 0)
            if not wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX):
                problems.append("not whole again")
            wanted = (turn + 1) * RECORDS_PER_ROUND
            judge.read(wanted)
            problems += judge_copies(judge.found, wanted)
            if problems:
                break
            done += 1
        judge.close()
    if not problems:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "client": "TransactionalMessageCopier",
        "rounds": done,
        "records": done * RECORDS_PER_ROUND,
        "verdict": "; ".join(problems[:5]) or "ok",
    }


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    found = jars("kafka-tools")
    row = {"verdict": found} if isinstance(found, str) else run_rounds(2 if quick else 20)
    publish(RESULTS, QUESTION, [row], goal=GOAL)


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m reliability.{QUESTION}", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = jars("kafka-tools")
    if isinstance(found, str):
        print(f"the copier can not be run: {found}", file=sys.stderr)
        return 1
    row = run_rounds(arguments.rounds, arguments.seed)
    publish(RESULTS, QUESTION, [row], goal=GOAL)
    return 0 if row["verdict"] == "ok" else 1


if __name__ == "__main__":
    end_with(main)
