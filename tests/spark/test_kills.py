"""The landing job as a real process, killed with -9 wherever it happens to be; so is the node."""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.node import NodeProcess
from tests.spark.landing import PARTITIONS, WAIT_SECONDS, LandProcess, Stream, check_exactly_once
from tests.spark.tables import read_table
from tests.spark.topics import Topics

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


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
        assert job.is_running, job.log()
        assert time.monotonic() < deadline, job.log()
        stream.send(60)
        time.sleep(0.1)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
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
    check_exactly_once(
        stream, read_table(kind, table), read_table(kind, tmp_path / "table_dead_letter")
    )
