"""A stream into a topic: driver, task and node are killed at each point that matters."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.waiting import wait_until
from penstock.client.produce import now_ms
from penstock.record.build import Record
from tests.spark.killed_sink import BATCH_RECORDS, DEATHS, NODE_BACK, NODE_WANTED, TASK_FAILED
from tests.spark.stock import read_committed
from tests.spark.topics import Topics

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
WAIT_SECONDS = 540.0
_PROGRAM = "import sys; from tests.spark.killed_sink import main; main(*sys.argv[1:])"
BATCHES = 6
PARTITIONS = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running


class Driver:
    """The query as a process of its own."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *arguments],
                stdout=file,
                stderr=file,
                cwd=Path(__file__).parents[2],
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        return self._process.wait(WAIT_SECONDS)


def test_each_row_counts_once_whatever_dies(node: NodeProcess, tmp_path: Path) -> None:
    with Topics(node.bootstrap) as topics:
        source, target = topics.make(PARTITIONS), topics.make(PARTITIONS)
        each = BATCHES * BATCH_RECORDS // PARTITIONS
        for partition in range(PARTITIONS):
            records = (Record(None, b"%d-%d" % (partition, n), (), now_ms()) for n in range(each))
            topics.send(source, records, partition=partition)
        expected = Counter(b"%d-%d" % (p, n) for p in range(PARTITIONS) for n in range(each))
        directory = tmp_path / "query"
        directory.mkdir()
        given = node.bootstrap, source, target, str(directory)
        for death in DEATHS.values():
            killed = Driver(*given, log=tmp_path / "log")
            assert killed.wait() == -9, killed.log.read_text()[-2000:]
            assert (directory / death).exists()
            seen = read_committed(node.bootstrap, target, PARTITIONS)
            assert max(seen.values(), default=1) == 1
        last = Driver(*given, log=tmp_path / "log")
        wanted = (directory / NODE_WANTED).exists
        assert wait_until(lambda: wanted() or not last.is_running, WAIT_SECONDS)
        assert wanted(), last.log.read_text()[-2000:]
        node.restart()
        (directory / NODE_BACK).touch()
        assert last.wait() == 0, last.log.read_text()[-2000:]
        assert (directory / TASK_FAILED).exists()
        assert read_committed(node.bootstrap, target, PARTITIONS) == expected
        written = sum(len(topics.read(target, partition)) for partition in range(PARTITIONS))
        assert written > expected.total()  # the runs that do not count are in the log
