"""The landing job as a real process, killed with -9 wherever it happens to be; so is the node."""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from benchmarks.harness.node import NodeProcess
from confluent_kafka import Producer

from tests.spark.tables import read_table
from tests.spark.topics import Topics

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
PARTITIONS = 3
WAIT_SECONDS = 60.0


class LandProcess:
    """`penstock land` and all its processes: Python, the JVM, Spark's workers."""

    def __init__(self, table: Path, topic: str, bootstrap: str, *more: str) -> None:
        command = ["land", topic, "--to", str(table), "--bootstrap", bootstrap]
        settings = ["--master", "local[2]", "--trigger", "0.1"]
        self._log = table.with_name("land.log").open("ab")
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("penstock")), *command, *settings, *more],
            stdout=self._log,
            stderr=self._log,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the whole family; one that has ended is fine."""
        if not self.is_running:
            return
        family = psutil.Process(self._process.pid)
        for process in [family, *family.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.wait()

    def wait(self) -> int:
        code = self._process.wait(WAIT_SECONDS)
        self._log.close()
        return code


class Stream:
    """An idempotent producer of the stock client that numbers its records per partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._topic = topic
        self.sent = [0] * PARTITIONS

    def send(self, count: int) -> None:
        for n in range(count):
            partition = n % PARTITIONS
            number = self.sent[partition]
            value = b"broken" if number % 100 == 99 else b'{"n": %d}' % number
            self._producer.produce(self._topic, value, partition=partition)
            self.sent[partition] += 1
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(WAIT_SECONDS) == 0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running


@pytest.fixture
def start() -> Iterator[Callable[..., LandProcess]]:
    """Starts jobs, and ends those that a failed test leaves behind."""
    started: list[LandProcess] = []

    def begin(table: Path, topic: str, bootstrap: str, *more: str) -> LandProcess:
        started.append(LandProcess(table, topic, bootstrap, *more))
        return started[-1]

    yield begin
    for job in started:
        job.kill()


def _rows(kind: str, table: Path) -> int:
    try:
        return int(read_table(kind, table).num_rows)
    except Exception:  # noqa: BLE001
        return 0  # a table that is not there yet, or being made


def _wait_for_rows(kind: str, table: Path, above: int, job: LandProcess, stream: Stream) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while _rows(kind, table) <= above:
        assert job.is_running, table.with_name("land.log").read_text()[-2000:]
        assert time.monotonic() < deadline, table.with_name("land.log").read_text()[-2000:]
        stream.send(60)
        time.sleep(0.1)


@pytest.mark.parametrize("kind", ["parquet"])
def test_kills_of_job_and_node_leave_no_row_missing_or_double(
    node: NodeProcess, start: Callable[..., LandProcess], tmp_path: Path, kind: str
) -> None:
    chance = random.Random(os.environ.get("PENSTOCK_TEST_SEED", "1"))
    table, topic = tmp_path / "table", "t"
    with Topics(node.bootstrap) as topics:
        topics.admin.create_topic(topic, partitions=PARTITIONS)
    stream = Stream(node.bootstrap, topic)
    stream.send(3_000)
    how = ("--format", kind, "--schema", "n long", "--partition-by", "none")
    for kill_node in (False, True):
        small = ("--max-records-per-batch", "1500")
        job = start(table, topic, node.bootstrap, "--stream", *small, *how)
        _wait_for_rows(kind, table, _rows(kind, table) + 1_500, job, stream)
        if kill_node:
            node.kill()
            time.sleep(0.5)
            node.start()
            _wait_for_rows(kind, table, _rows(kind, table) + 1_500, job, stream)
        time.sleep(chance.uniform(0, 0.4))
        job.kill()
    stream.finish()
    assert start(table, topic, node.bootstrap, *how).wait() == 0
    _check(stream, read_table(kind, table), read_table(kind, tmp_path / "table_dead_letter"))


def _check(stream: Stream, rows: Any, dead: Any) -> None:
    landed = Counter(zip(*(rows.column(c).to_pylist() for c in ("_partition", "n")), strict=True))
    letters = Counter(
        zip(*(dead.column(c).to_pylist() for c in ("_partition", "_offset")), strict=True)
    )
    sent = {(p, n) for p in range(PARTITIONS) for n in range(stream.sent[p])}
    assert set(landed) == {(p, n) for p, n in sent if n % 100 != 99}
    assert set(letters) == {(p, n) for p, n in sent if n % 100 == 99}
    assert set(landed.values()) | set(letters.values()) == {1}
