"""Does the disk stay within what retention allows, level 0 and one pass, whatever is beside it?

`python -m reliability.disk_bound --seconds 300 --partitions 400`: one node whose log has a level 0
of 16 MiB takes, by stock clients, as fast as asked:

    many partitions of short retention     by bytes and by time; they die in level 0
    some that are kept for ever            a few records each, between those of the others
    a compacted topic                      not compacted yet: all of it is kept
    a group that commits its positions     all the time
    a slow reader of what is kept          always behind

Every half second the files are measured, and held against

    used  <=  what is kept, with its indexes  +  level 0  +  what came in PASS_SECONDS, and segments

and in the end, when nothing is written any more, against the same without what came. Then all that
is kept is read once more. An hour of a disk that is filled once in an hour is minutes here: level 0
is filled every few seconds. Exit code 1 when the bound was broken or a record was lost.

It does not judge files in which one partition is kept for longer than another beside it, both for
longer than level 0: they stay whole until they are merged, which is not built.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from harness.node import NodeProcess
from harness.results import publish, show
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from reliability import RESULTS

SEGMENT = 2 << 20
LEVEL0 = 16 << 20
SEGMENTS_BESIDE = 6
"""Of a pass and its snapshot: active, allocated ahead, closed, and on their way out."""
PASS_SECONDS = 15.0
"""What comes meanwhile may lie beyond level 0: a pass a second, a job, the pass behind it."""
KEPT_FACTOR = 1.25
"""Indexes, frames and notes beside the batches of what is kept."""
SHORT_BYTES = 16 << 10
VALUE_BYTES = 2_000
KEPT_VALUE_BYTES = 400
POSITION_BYTES = 200
"""Of a committed position, which is kept until its partition of the internal topic is rewritten."""
KEPT_EVERY = 40
"""One record that is kept for ever among so many."""
AT_END: int = KafkaError._PARTITION_EOF  # noqa: SLF001  it has no other name
GOAL = "used at most what is kept, level 0 and one pass; nothing that is kept is lost"
SETTINGS = {
    "log": {
        "segment_bytes": SEGMENT,
        "first_segment_bytes": SEGMENT,
        "staging_bytes": 1 << 20,
        "recycle_count": 0,
        "reserve_bytes": 0,
        "checkpoint_interval_ms": 0,
    },
    "broker": {"housekeeping_interval_ms": 1_000},
}


@dataclass(slots=True)
class Figures:
    """What was measured."""

    produced_bytes: int = 0
    kept_bytes: int = 0
    kept_acked: int = 0
    commits: int = 0
    slow_read: int = 0
    peak_bytes: int = 0
    worst_share: float = 0.0
    """Of the bound."""
    final_bytes: int = 0
    final_share: float = 0.0
    problems: list[str] = field(default_factory=list)


class Load:
    """The clients of one run."""

    def __init__(self, node: NodeProcess, partitions: int, bytes_per_second: int) -> None:
        self.node = node
        self.figures = Figures()
        self.stop = threading.Event()
        self._bytes_per_second = bytes_per_second
        few = max(1, partitions // 20)
        self.kept_topics = {"kept": few, "compacted": 2}
        self._short_topics = {"small": partitions // 2, "brief": partitions - partitions // 2}
        create_topic(
            node.bootstrap, "small", partitions // 2, {"retention.bytes": f"{SHORT_BYTES}"}
        )
        create_topic(node.bootstrap, "brief", self._short_topics["brief"], {"retention.ms": "1000"})
        create_topic(node.bootstrap, "kept", few, {"retention.ms": "-1"})
        create_topic(node.bootstrap, "compacted", 2, {"cleanup.policy": "compact"})
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (self._write, self._commit, self._read_slowly)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001  whatever ends a client is a finding
            self.figures.problems.append(f"{type(error).__name__}: {error}")

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "linger.ms": 20,
                "message.timeout.ms": int(UNTIL_SECONDS * 1000),
                "enable.idempotence": True,
            }
        )
        places = [(topic, n) for topic, count in self._short_topics.items() for n in range(count)]
        kept = [(topic, n) for topic, count in self.kept_topics.items() for n in range(count)]
        begun, number, figures = time.monotonic(), 0, self.figures
        while not self.stop.is_set():
            due = (time.monotonic() - begun) * self._bytes_per_second
            while figures.produced_bytes < due and not self.stop.is_set():
                topic, partition = places[number % len(places)]
                value = b"%d." % number + bytes(VALUE_BYTES)
                self._send(producer, topic, partition, value, figures)
                if number % KEPT_EVERY == 0:
                    topic, partition = kept[number // KEPT_EVERY % len(kept)]
                    self._send(producer, topic, partition, b"%d." % number + bytes(400), figures)
                number += 1
            producer.poll(0.01)
        assert producer.flush(UNTIL_SECONDS) == 0

    def _send(
        self, producer: Producer, topic: str, partition: int, value: bytes, figures: Figures
    ) -> None:
        is_kept = topic in self.kept_topics

        def delivered(error: object, _: object) -> None:
            if error is not None:
                figures.problems.append(f"not delivered: {error}")
            elif is_kept:
                figures.kept_acked += 1

        while True:
            try:
                producer.produce(topic, value, value[:20], partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        figures.produced_bytes += len(value)
        if is_kept:
            figures.kept_bytes += len(value) + 100

    def _commit(self) -> None:
        consumer = _consumer(self.node, "committing")
        offset = 0
        while not self.stop.wait(0.1):
            offset += 1
            places = [TopicPartition("kept", n, offset) for n in range(self.kept_topics["kept"])]
            consumer.commit(offsets=places, asynchronous=False)
            self.figures.commits += 1
            self.figures.kept_bytes += len(places) * POSITION_BYTES
        consumer.close()

    def _read_slowly(self) -> None:
        consumer = _consumer(self.node, "slow")
        consumer.assign([TopicPartition("kept", n, 0) for n in range(self.kept_topics["kept"])])
        while not self.stop.wait(0.1):
            for message in consumer.consume(5, 0.2):
                error = message.error()
                assert error is None or error.code() == AT_END, error
                self.figures.slow_read += error is None
        consumer.close()


def _consumer(node: NodeProcess, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )


def used_bytes(data: Path) -> int:
    """Return the bytes of all files of the logs; those that go meanwhile count nothing."""
    total = 0
    for path in data.glob("set-*/**/*"):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def watch(load: Load, seconds: float) -> None:
    """Hold the files against the bound every half second."""
    figures = load.figures
    came: deque[tuple[float, int]] = deque()
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end and not figures.problems:
        came.append((now, figures.produced_bytes))
        while came[0][0] < now - PASS_SECONDS:
            came.popleft()
        recent = came[-1][1] - came[0][1]
        used = used_bytes(load.node.data)
        bound = fixed_bound(figures) + recent
        figures.peak_bytes = max(figures.peak_bytes, used)
        figures.worst_share = max(figures.worst_share, used / bound)
        if used > bound:
            figures.problems.append(f"{used} bytes are used, {bound} are the bound")
        load.stop.wait(0.5)


def fixed_bound(figures: Figures) -> int:
    """Return the bound without what has come in the last seconds."""
    return int(figures.kept_bytes * KEPT_FACTOR) + LEVEL0 + SEGMENTS_BESIDE * SEGMENT


def settle(load: Load) -> None:
    """Hold the files against the bound once nothing is written any more."""
    figures = load.figures
    bound = fixed_bound(figures)
    wait_until(lambda: used_bytes(load.node.data) <= bound, UNTIL_SECONDS)
    figures.final_bytes = used_bytes(load.node.data)
    figures.final_share = figures.final_bytes / bound
    if figures.final_bytes > bound:
        figures.problems.append(f"{figures.final_bytes} bytes stay, {bound} are the bound")


def read_kept(load: Load) -> int:
    """Return how many records that are kept are read from the beginning."""
    consumer = _consumer(load.node, "judge")
    places = [
        TopicPartition(t, n, 0) for t, count in load.kept_topics.items() for n in range(count)
    ]
    consumer.assign(places)
    found, ended = 0, set[tuple[str | None, int | None]]()
    deadline = time.monotonic() + UNTIL_SECONDS
    while len(ended) < len(places) and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                found += 1
            else:
                ended.add((message.topic(), message.partition()))
    consumer.close()
    return found


def measure(directory: Path, *, seconds: float, partitions: int, rate: int, level0: int) -> Figures:
    """Run the load on one node, and judge it."""
    log = SETTINGS["log"] | {"level0_bytes": level0}
    with NodeProcess(directory, settings=SETTINGS | {"log": log}) as node:
        load = Load(node, partitions, rate)
        load.start()
        try:
            watch(load, seconds)
        finally:
            load.end()
        figures = load.figures
        if figures.problems:
            return figures
        settle(load)
        read = read_kept(load)
        if read < figures.kept_acked:
            figures.problems.append(f"{figures.kept_acked} are kept, {read} are read")
    return figures


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m reliability`."""
    if _run(seconds=30.0 if quick else 300.0, partitions=400, rate=6 << 20):
        raise SystemExit(1)


def _run(*, seconds: float, partitions: int, rate: int, level0: int = LEVEL0) -> int:
    directory = Path(tempfile.mkdtemp(prefix="penstock-bound-"))
    figures = measure(directory, seconds=seconds, partitions=partitions, rate=rate, level0=level0)
    row = {
        "seconds": seconds,
        "partitions": partitions,
        "produced MB": figures.produced_bytes / 1e6,
        "kept MB": figures.kept_bytes / 1e6,
        "used MB, peak": figures.peak_bytes / 1e6,
        "of the bound, worst": figures.worst_share,
        "used MB, end": figures.final_bytes / 1e6,
        "of the bound, end": figures.final_share,
        "commits": figures.commits,
        "read slowly": figures.slow_read,
        "verdict": "; ".join(figures.problems)[:200] or "ok",
    }
    if level0 == LEVEL0:
        publish(RESULTS, "disk_bound", [row], goal=GOAL)
    else:
        show("disk_bound", [row], goal=GOAL)
    if figures.problems:
        print(f"the node's files are kept in {directory}", file=sys.stderr)
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


def main() -> int:
    """Read the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m reliability.disk_bound", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--rate", type=int, default=6 << 20, help="bytes per second")
    parser.add_argument("--level0", type=int, default=LEVEL0, help="-1: off, which must fail")
    given = parser.parse_args()
    return _run(
        seconds=given.seconds, partitions=given.partitions, rate=given.rate, level0=given.level0
    )


if __name__ == "__main__":
    end_with(main)
