"""A Spark job is held while what it has planned is merged in a real S3 server, and a node dies.

The plan of a job names objects and holds for a lease: no broker is asked again. The server's log
says what was read after the merge.
"""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import s3_server
from harness.node import NodeProcess
from harness.s3_server import S3Server
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.integration.test_tier import COUNT, TOPIC, produce, until
from tests.integration.test_tier_s3_merging import (
    LONG,
    Bucket,
    generations,
    merged_objects,
    told_names,
)
from tests.spark.history import filled, tiered_node

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.compat,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

OF_TASK = COUNT // 3
"""Records: a job has more tasks than can be held at once."""
FULL = {"object_bytes": 60_000, "merge_bytes": 4_400_000, "merge_ms": 86_400_000}
"""Merged is what three rounds of writing have, and a little more."""
READ = "s3_GetObject"


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path / "s3") as server:
        yield Bucket(server, tmp_path / "secret")


@pytest.fixture
def node(bucket: Bucket, tmp_path: Path) -> Iterator[NodeProcess]:
    more = bucket.settings(**FULL, **LONG)["tier"]
    with tiered_node(tmp_path / "node", str(more.pop("url")), **more) as node:
        yield node


class Held:
    """A job each of whose tasks waits for a file before it gives a row."""

    def __init__(self, frame: "DataFrame", directory: Path) -> None:
        self._frame = frame
        self._begun, self._go = directory / "begun", directory / "go"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rows: list[tuple[int, bytes]] = []
        self.error: Exception | None = None

    def _run(self) -> None:
        begun, go, seconds = str(self._begun), self._go, UNTIL_SECONDS

        def hold(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            for batch in batches:
                with open(begun, "w"):  # noqa: PTH123  a closure that is pickled
                    pass
                assert wait_until(go.exists, seconds)
                yield batch

        try:
            found = self._frame.mapInArrow(hold, "offset long, value binary").collect()
            self.rows = [(row.offset, bytes(row.value)) for row in found]
        except Exception as error:  # noqa: BLE001  it is looked at where the job is ended
            self.error = error

    def begin(self) -> None:
        self._thread.start()
        assert wait_until(lambda: self._begun.exists() or self.error, UNTIL_SECONDS)
        assert self.error is None, self.error

    def end(self) -> list[tuple[int, bytes]]:
        """Let it go on; return its rows."""
        self._go.touch()
        self._thread.join(UNTIL_SECONDS)
        assert not self._thread.is_alive()
        assert self.error is None, self.error
        return self.rows


def is_merged(node: NodeProcess, first: str) -> bool:
    """Whether the object that the leader told of first has gone into another one."""
    told = told_names(node.bootstrap)
    return bool(told) and told[0] != first


def test_a_job_reads_each_record_once_though_its_objects_are_merged_meanwhile(
    spark: "SparkSession", bucket: Bucket, node: NodeProcess, tmp_path: Path
) -> None:
    values = filled(node)
    told = told_names(node.bootstrap)
    assert not merged_objects(bucket), "nothing was to be merged before the job has its plan"
    options = {"bootstrap": node.bootstrap, "subscribe": TOPIC, "tier": "required"}
    options |= bucket.of_spark() | {"maxRecordsPerPartition": str(OF_TASK)}
    frame = spark.read.format("penstock").options(**options).load().select("offset", "value")
    job = Held(frame, tmp_path)
    job.begin()

    produce(node, TOPIC, len(values), 2 * COUNT)
    until(lambda: bool(merged_objects(bucket)), node)
    node.kill()  # amid the merge, or right behind it
    node.start()
    until(partial(is_merged, node, told[0]), node)
    assert set(told) <= set(generations(bucket)), "a lease was given for these"
    gone = set(told) - set(told_names(node.bootstrap))
    before = len(bucket.server.requests(READ))

    assert sorted(job.end()) == list(enumerate(values))
    read = bucket.server.requests(READ)[before:]
    assert any(name in line for line in read for name in gone), "nothing was read by the lease"
    assert set(told) <= set(generations(bucket)), "a lease was given for these"
