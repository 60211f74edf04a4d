"""Kafka Streams by the streams protocol: counts are right while instances come and go."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.java_streams import JavaStreams, settings_of
from tests.compat.java_tools import tool
from tests.compat.taking import Taking

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

WORDS = [f"word-{number}" for number in range(20)]
PARTITIONS = 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that does not wait long for instances that were killed.

    It has one group: `kafka-streams-groups` of 4.1.1 describes the first one in the list.
    """
    settings = {"groups": {"streams_session_timeout_ms": 6_000}}
    with NodeProcess(tmp_path / "node", settings=settings) as node:
        yield node


def until(holds: Callable[[], object]) -> None:
    assert wait_until(holds, UNTIL_SECONDS)


class Counting:
    """The application's topics, what was written and what it has counted."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.source, self.sink = f"{name}-lines", f"{name}-counts"
        self.written: Counter[str] = Counter()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in (self.source, self.sink)])
        for future in made.values():
            future.result(UNTIL_SECONDS)
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._counted: dict[str, int] = {}
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{name}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._reader.assign([TopicPartition(self.sink, n, 0) for n in range(PARTITIONS)])
        self._taking = Taking(self._reader)

    def write(self, times: int) -> None:
        for _ in range(times):
            for word in WORDS:
                self._producer.produce(self.source, key=word, value="x")
                self.written[word] += 1
        self._producer.flush()

    def wait_counted(self) -> None:
        """Wait until what the application has written last of each word is what there is of it."""
        self._taking.wait(self._is_counted, told=lambda: self._counted)

    def _is_counted(self) -> bool:
        for one in self._taking.take(500, 0.2):
            # No key is no word, and no value no count: neither is ever equal to what was written.
            word = "" if one.key is None else one.key.decode()
            self._counted[word] = -1 if one.value is None else int.from_bytes(one.value, "big")
        return self._counted == self.written

    def instance(self, directory: Path, guarantee: str) -> JavaStreams:
        own = settings_of(self.name, self.bootstrap, directory)
        return JavaStreams(self.source, self.sink, {**own, "processing.guarantee": guarantee})

    def close(self) -> None:
        self._reader.close()


def group(bootstrap: str, name: str) -> dict[str, Any]:
    """Return what `penstock group describe` says."""
    command = [sys.executable, "-m", "penstock.cli.main", "group", "describe", name]
    done = subprocess.run(
        [*command, "--bootstrap", bootstrap, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=UNTIL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def all_tasks() -> set[str]:
    return {f"{part}_{number}" for part in (0, 1) for number in range(PARTITIONS)}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_counts_are_right_while_instances_come_close_and_are_killed(
    node: NodeProcess, tmp_path: Path, guarantee: str
) -> None:
    counting = Counting(node.bootstrap, f"counting-{guarantee.replace('_', '-')}")
    counting.write(5)
    with (
        counting.instance(tmp_path / "one", guarantee) as one,
        counting.instance(tmp_path / "two", guarantee) as two,
    ):
        until(lambda: len(one.active_tasks) == len(two.active_tasks) == PARTITIONS)
        assert one.active_tasks | two.active_tasks == all_tasks()
        counting.wait_counted()
        view = group(node.bootstrap, counting.name)
        assert (view["type"], view["state"], view["members"]) == ("streams", "Stable", 2)
        assert view["topology_epoch"] == 0
        assert view["tasks"].count("active ") == 2 * PARTITIONS
        described = tool(
            "kafka-streams-groups",
            "--bootstrap-server",
            node.bootstrap,
            "--describe",
            "--group",
            counting.name,
            "--members",
        )
        assert described.count("ACTIVE:") == 2, described
        listed = tool(
            "kafka-streams-groups", "--bootstrap-server", node.bootstrap, "--list", "--state"
        )
        assert [line.split() for line in listed.splitlines() if counting.name in line] == [
            [counting.name, "Stable"]
        ]
        two.close()
        until(lambda: one.active_tasks == all_tasks())
        counting.write(5)
        counting.wait_counted()
        with counting.instance(tmp_path / "three", guarantee) as three:
            until(lambda: len(three.active_tasks) == PARTITIONS)
            three.kill()
            counting.write(5)
            until(lambda: one.active_tasks == all_tasks())
            counting.wait_counted()
    counting.close()
