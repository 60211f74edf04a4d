"""`penstock archive run` and `penstock replay`, killed with -9 in processes; so is the node."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.record.build import Record
from tests.archive.test_replay import committed
from tests.archive.world import DAY_MS, ledger_at, queried
from tests.spark.topics import NOON_MS, Topics

pytestmark = pytest.mark.process

PARTITIONS = 3
PER_PARTITION = 2_000
PENSTOCK = (sys.executable, "-m", "penstock.cli.main")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts commands, and ends those that a failed test leaves behind."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*PENSTOCK, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()
            process.communicate()


def fill(topics: Topics, topic: str) -> None:
    for partition in range(PARTITIONS):
        records = [
            Record(b"k%d" % (n % 50), b"%d" % n, (), NOON_MS + n % 4 * DAY_MS)
            for n in range(PER_PARTITION)
        ]
        topics.send(topic, records, partition=partition)


def ended_well(process: subprocess.Popen[bytes]) -> None:
    said, _ = process.communicate(timeout=UNTIL_SECONDS)
    assert process.returncode == 0, said.decode()


def test_runs_that_are_killed_leave_each_record_once(
    node: NodeProcess, start: Callable[..., subprocess.Popen[bytes]], archive: Path
) -> None:
    with Topics(node.bootstrap) as topics:
        topic = topics.make(PARTITIONS)
        fill(topics, topic)
        command = ("archive", "run", topic, "--to", str(archive), "-b", node.bootstrap)
        for count in (1, 5, 9):
            process = start(*command)

            def is_there(count: int = count, process: subprocess.Popen[bytes] = process) -> bool:
                files = len(list(archive.rglob("*.parquet")))
                return files >= count or process.poll() is not None

            assert wait_until(is_there, UNTIL_SECONDS)
            process.kill()
            process.communicate()
            shown = queried(archive)
            assert len(shown) == len(set(shown))
        ended_well(start(*command))
        ended_well(start("archive", "verify", str(archive)))
        found = [(row.partition, row.value) for row in queried(archive)]
        assert found == [
            (partition, b"%d" % n) for partition in range(PARTITIONS) for n in range(PER_PARTITION)
        ]
    with ledger_at(archive) as ledger:
        assert sum(chunk.rows for chunk in ledger.load().chunks()) == len(found)


def test_replays_that_are_killed_and_a_node_that_is_leave_each_record_once_in_its_partition(
    node: NodeProcess, start: Callable[..., subprocess.Popen[bytes]], archive: Path
) -> None:
    with Topics(node.bootstrap) as topics:
        topic = topics.make(PARTITIONS)
        fill(topics, topic)
        ended_well(start("archive", "run", topic, "--to", str(archive), "-b", node.bootstrap))
        target = topics.make(PARTITIONS, {"retention.ms": "-1"})

        def written() -> int:
            return sum(topics.end(target, partition) for partition in range(PARTITIONS))

        where = ("--to-topic", target, "-b", node.bootstrap, "--same-partitions")
        for kills_node in (False, True, False):
            until = written() + 600
            process = start("replay", str(archive), *where, "--rate", "500")

            def is_under_way(until: int = until) -> bool:
                return written() > until

            assert wait_until(is_under_way, UNTIL_SECONDS)
            if kills_node:
                node.kill()
                node.start()
            process.kill()
            process.communicate()
        ended_well(start("replay", str(archive), *where))
        for partition in range(PARTITIONS):
            found = [one.value for one in committed(topics, target, partition)]
            assert Counter(found) == Counter(b"%d" % n for n in range(PER_PARTITION))
            assert found == [b"%d" % n for n in range(PER_PARTITION)]
