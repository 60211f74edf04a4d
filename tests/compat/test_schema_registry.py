"""How a registry of schemas uses its topic, while the master of that is killed again and again.

Confluent's registry and Karapace keep all they know in one compacted partition: they read it to the
end, write, and answer when they have read back what they wrote. Neither can be had from a registry
of packages, so their store is imitated here.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.taking import Taking
from tests.integration.test_housekeeper import metric
from tests.integration.test_second_level_replicas import SETTINGS

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

NODES = 3
TOPIC = "_schemas"
KILLS = 6
SUBJECTS = 5
FILLER = "." * 20_000
"""Schemas are long; with these the topic has several segments."""


class Store:
    """One instance of the registry: all it knows is what it has read."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "registry"})
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        self._taking = Taking(self._consumer)
        self.known: dict[str, str] = {}
        self.next_offset = 0
        """Behind the last record that was read."""

    def put(self, key: dict[str, object], value: dict[str, object] | None) -> None:
        """Write, and return when it has been read back."""
        told: list[int] = []

        def on_delivery(error: object, message: object) -> None:
            assert error is None, error
            told.append(message.offset())  # type: ignore[attr-defined]

        text = None if value is None else json.dumps(value)
        self._producer.produce(
            TOPIC, key=json.dumps(key, sort_keys=True), value=text, on_delivery=on_delivery
        )
        assert self._producer.flush(UNTIL_SECONDS) == 0
        self.read_to(told[0] + 1)

    def read_to(self, offset: int) -> None:
        """Read until all before the offset is known."""

        def is_read() -> bool:
            for one in self._taking.take(100, 0.05):
                key = (one.key or b"").decode()
                if one.value is None:
                    self.known.pop(key, None)
                else:
                    self.known[key] = one.value.decode()
                self.next_offset = one.offset + 1
            return self.next_offset >= offset

        self._taking.wait(is_read, told=lambda: (self.next_offset, offset))

    def read_to_the_end(self) -> None:
        """Write a record without meaning and wait for it, as a registry does when it starts."""
        self.put({"keytype": "NOOP", "magic": 0}, {})

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes, whose cleaners begin as soon as anything can be cleaned."""
    with ClusterProcess(tmp_path / "cluster", brokers=NODES, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        policy = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        admin.create_topics([NewTopic(TOPIC, 1, NODES, config=policy)])[TOPIC].result(UNTIL_SECONDS)
        asked = ConfigResource(ResourceType.TOPIC, TOPIC)
        found = admin.describe_configs([asked])[asked].result(UNTIL_SECONDS)
        assert found["cleanup.policy"].value == "compact"
        yield cluster


def dropped(cluster: ClusterProcess) -> float:
    """Return how many records the cleaners of all nodes have dropped since they started."""
    name = "penstock_cleaner_dropped_records_total"
    return sum(metric(node, name) for node in cluster.nodes.values())


def register(store: Store, subject: int, version: int) -> None:
    """Register a schema, set its subject's compatibility anew, delete the schema before it."""
    name = f"subject-{subject}"
    schema = {"keytype": "SCHEMA", "magic": 1, "subject": name}
    store.put({**schema, "version": version}, {"id": version, "schema": FILLER})
    store.put({"keytype": "CONFIG", "magic": 0, "subject": name}, {"level": version})
    if version:
        store.put({**schema, "version": version - 1}, None)


def test_what_was_written_is_read_back_while_the_master_is_killed(cluster: ClusterProcess) -> None:
    with closing(Store(cluster.bootstrap)) as writer, closing(Store(cluster.bootstrap)) as follower:
        writer.read_to_the_end()
        for version in range(KILLS):
            register(writer, 0, version)
            cluster.nodes[cluster.wait_for_leader(TOPIC)].kill()
            for subject in range(SUBJECTS):
                register(writer, subject, version)
            for node in cluster.nodes.values():
                if not node.is_running:
                    node.start()
        follower.read_to(writer.next_offset)
        assert len(writer.known) == 2 * SUBJECTS + 1
        assert follower.known == writer.known
        with closing(Store(cluster.bootstrap)) as new:
            new.read_to_the_end()
            writer.read_to(new.next_offset)
            assert new.known == writer.known
    assert wait_until(lambda: dropped(cluster) > 0, UNTIL_SECONDS), "nothing was compacted"
