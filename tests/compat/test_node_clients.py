"""Clients for Node.js, KafkaJS and Confluent's on librdkafka, on three nodes through a failover."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from harness.workload import read_all
from tests.compat.npm import PROJECTS, node_modules

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1_200)]

STEP_SECONDS = 90.0
SETTINGS: dict[str, dict[str, object]] = {
    "controller": {"heartbeat_interval_ms": 250, "session_timeout_ms": 1500},
    "replication": {"lease_ms": 600},
}
PARTITIONS = 3
RECORDS = 300
"""To be acknowledged before the master dies, and again after it."""


@pytest.fixture(params=["kafkajs", "confluent"])
def client(request: pytest.FixtureRequest) -> str:
    """A client that is installed; skips with the reason where it can not be."""
    name = str(request.param)
    found = node_modules(name)
    if isinstance(found, str):
        pytest.skip(found)
    return name


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, settings=SETTINGS) as process:
        yield process


class Step:
    """A step of steps.js at work; what it says is read as it comes."""

    def __init__(self, client: str, step: str, **given: object) -> None:
        command = ["node", str(PROJECTS / "steps.js"), client, step, json.dumps(given)]
        environment = {**os.environ, "NODE_PATH": str(node_modules(client))}
        self.said: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.said.extend(json.loads(line) for line in self._process.stdout)

    def values(self, kind: str) -> list[Any]:
        """Return what was said under that name so far."""
        return [one[kind] for one in list(self.said) if kind in one]

    @property
    def acked(self) -> list[str]:
        """The values that were acknowledged so far."""
        return [value for values in self.values("acked") for value in values]

    def has_acked(self, count: int) -> bool:
        """Wait until so many records are acknowledged."""
        return wait_until(
            lambda: len(self.acked) >= count or self._process.poll() is not None, STEP_SECONDS
        ) and (len(self.acked) >= count)

    def finish(self) -> "Step":
        """Let it come to its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with self:
            code = self._process.wait(STEP_SECONDS)
        assert code == 0, self.said[-3:]
        return self

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()


def test_topics_a_failover_a_group_and_a_deletion(client: str, cluster: ClusterProcess) -> None:
    common = {"brokers": cluster.bootstrap.split(","), "topic": f"of-{client}", "group": "readers"}
    topic = str(common["topic"])

    made = Step(client, "topics", replicas=3, **common).finish()
    assert (made.values("created"), made.values("again")) == ([True], [False])
    assert topic in made.values("topics")[0]
    assert made.values("replicas") == [[3] * PARTITIONS]

    with Step(client, "produce", **common) as producer:
        assert producer.has_acked(RECORDS), producer.said[-1]
        cluster.nodes[cluster.leader_of(topic)].kill()
        assert producer.has_acked(len(producer.acked) + RECORDS), producer.said[-1]
        acked = producer.finish().acked
    polls = read_all(cluster.bootstrap, topic, PARTITIONS)
    stored = [value for poll in polls for _, value in poll.records]
    assert sorted(stored, key=int) == acked, "each once: the producer is idempotent"

    first = Step(client, "consume", count=RECORDS, **common).finish()
    rest = Step(client, "consume", count=len(acked) - RECORDS, **common).finish()
    read = first.values("value") + rest.values("value")
    assert sorted(read, key=int) == acked, "the second goes on where the first has committed"
    assert {*first.values("from"), *rest.values("from")} == {client}

    removed = Step(client, "remove", **common).finish()
    assert removed.values("end") == [len(acked)]
    assert topic not in removed.values("topics")[0]
