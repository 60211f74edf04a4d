"""Kafka Connect in distributed mode, its sources exactly once, while workers and nodes are killed.

file ─► FileStreamSource ─► topic ─► FileStreamSink ─► file
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS
from tests.compat.java_connect import Worker, Workers
from tests.compat.taking import Taking

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

KILLS = 4
LINES_EACH = 500
BATCH = 20
"""Lines in one poll, which is one transaction."""
PADDING = "." * 700
"""Of two lines in its buffer of 1 KiB the source holds back the second at the end of a batch."""
NODES = 3
TOPIC = "lines"
INTERNAL = ("connect-configs", "connect-offsets", "connect-status")
SETTINGS: dict[str, dict[str, object]] = {
    "log": {"segment_bytes": 4 << 20, "level0_bytes": 0},
    "controller": {"session_timeout_ms": 3_000},
}
"""Compacted topics are compacted."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes with a topic of one partition on all of them."""
    with ClusterProcess(tmp_path / "cluster", brokers=NODES, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, NODES)])[TOPIC].result(UNTIL_SECONDS)
        yield cluster


@pytest.fixture
def workers(cluster: ClusterProcess, tmp_path: Path) -> Iterator[Workers]:
    with Workers(tmp_path, cluster.bootstrap, count=3, replicas=NODES) as workers:
        yield workers


class Lines:
    """The file that the source reads, and what was ever written to it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.written: list[str] = []
        file.touch()

    def write(self, count: int) -> None:
        first = len(self.written)
        added = [f"{number:06}{PADDING}" for number in range(first, first + count)]
        self.written += added
        with self.file.open("a", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in added)

    def position_after(self, count: int) -> int:
        """Return the position in the file, in bytes, after so many lines."""
        return sum(len(line) + 1 for line in self.written[:count])

    def source(self) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(self.file),
            "topic": TOPIC,
            "exactly.once.support": "required",
            "batch.size": str(BATCH),
        }


def sink(file: Path) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(file),
        "topics": TOPIC,
    }


class Committed:
    """Reads the topic's committed lines, in the order of the log."""

    def __init__(self, bootstrap: str, workers: Workers) -> None:
        settings = {"isolation.level": "read_committed", "fetch.wait.max.ms": 50}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", **settings})
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        self._taking = Taking(self._consumer)
        self._workers = workers
        self.lines: list[str] = []

    def look(self) -> None:
        """Read what is there, for a short while."""
        self._look()
        self._taking.check()

    def _look(self) -> None:
        self.lines.extend((one.value or b"").decode() for one in self._taking.take(100, 0.05))

    def wait_count(self, count: int) -> None:
        """Wait until there are so many lines."""

        def are_there() -> bool:
            self._look()
            return len(self.lines) >= count

        self._workers.until(
            lambda: self._taking.is_over(are_there), lambda: f"{len(self.lines)} of {count}"
        )
        self._taking.check()

    def wait(self, lines: list[str]) -> None:
        """Wait until there are as many lines as these; they must be these in this order."""
        self.wait_count(len(lines))
        assert numbers(self.lines) == numbers(lines)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def committed(cluster: ClusterProcess, workers: Workers) -> Iterator[Committed]:
    made = Committed(cluster.bootstrap, workers)
    yield made
    made.close()


def numbers(lines: list[str]) -> list[int]:
    """Return what a failed comparison should show of the lines."""
    return [int(line.removesuffix(PADDING)) for line in lines]


def owner(workers: Workers, connector: str) -> Worker:
    """Wait until a worker runs the connector's task, and return it."""
    found: list[Worker] = []

    def is_owned() -> bool:
        found[:] = [one for one in (workers.owner(connector),) if one is not None]
        return bool(found)

    workers.until(is_owned, lambda: f"nobody has {connector}")
    return found[0]


def cleanup_policies(bootstrap: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in INTERNAL]
    answered = admin.describe_configs(asked)
    return {one.name: answered[one].result(UNTIL_SECONDS)["cleanup.policy"].value for one in asked}


def start_lines(lines: Lines, committed: Committed) -> None:
    """Give the source more lines; returns when the first of them is committed."""
    before = len(lines.written)
    lines.write(LINES_EACH)
    committed.wait_count(before + 1)


def test_each_line_comes_once_while_workers_and_a_node_are_killed(
    cluster: ClusterProcess, workers: Workers, committed: Committed, tmp_path: Path
) -> None:
    lines, sunk = Lines(tmp_path / "source.txt"), tmp_path / "sink.txt"
    workers.create("source", lines.source())
    workers.create("sink", sink(sunk))
    assert cleanup_policies(cluster.bootstrap) == dict.fromkeys(INTERNAL, "compact")
    left: list[int] = []
    for _ in range(KILLS):
        victim = owner(workers, "source")
        start_lines(lines, committed)
        victim.server.kill()
        committed.look()
        left.append(len(lines.written) - len(committed.lines))
        committed.wait(lines.written)
        victim.server.launch()
    assert any(left), "no worker was killed amid its work"
    start_lines(lines, committed)
    cluster.nodes[cluster.wait_for_leader(TOPIC)].restart()
    committed.wait(lines.written)
    workers.until(
        lambda: set(sunk.read_text().splitlines()) == set(lines.written),
        lambda: len(set(sunk.read_text().splitlines())),
    )


def test_offsets_are_told_altered_and_reset(
    workers: Workers, committed: Committed, tmp_path: Path
) -> None:
    lines, sunk = Lines(tmp_path / "source.txt"), tmp_path / "sink.txt"
    lines.write(LINES_EACH)
    workers.create("source", lines.source())
    committed.wait(lines.written)
    workers.stop("source")
    partition = {"filename": str(lines.file)}
    whole = lines.position_after(LINES_EACH)
    assert workers.offsets("source") == [{"partition": partition, "offset": {"position": whole}}]
    half = {"position": lines.position_after(LINES_EACH // 2)}
    workers.alter_offsets("source", [{"partition": partition, "offset": half}])
    workers.resume("source")
    again = lines.written + lines.written[LINES_EACH // 2 :]
    committed.wait(again)
    workers.stop("source")
    workers.reset_offsets("source")
    assert workers.offsets("source") == []
    workers.resume("source")
    committed.wait(again + lines.written)

    workers.create("sink", sink(sunk))
    workers.until(lambda: is_sunk(sunk, committed.lines), lambda: "not all is sunk")
    workers.stop("sink")
    (offset,) = [one["offset"]["kafka_offset"] for one in workers.offsets("sink")]
    assert offset > len(committed.lines), "the markers of transactions have offsets too"
    workers.reset_offsets("sink")
    sunk.unlink()
    workers.resume("sink")
    workers.until(lambda: is_sunk(sunk, committed.lines), lambda: "not all is sunk again")


def is_sunk(file: Path, lines: list[str]) -> bool:
    return file.exists() and file.read_text(encoding="ascii").splitlines() == lines
