"""A consumer that reads from a slave, whose disk is freed of what it was to read next."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from harness.waiting import wait_until
from tests.integration.test_tier import TOPIC, settings
from tests.integration.test_tier_failover import Copied, until
from tests.integration.test_tier_reads import is_freed

pytestmark = pytest.mark.process

LITTLE = {
    "fetch.message.max.bytes": 50_000,
    "fetch.max.bytes": 1_100_000,
    "max.partition.fetch.bytes": 50_000,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 60,
    "fetch.queue.backoff.ms": 10,
}
"""What a client has read ahead is a part of what was written."""
FIRST = 20


class Racked(Copied):
    """Each member in a rack of its own, all of which are read from."""

    def settings_of(self, peer_id: int) -> dict[str, dict[str, object]]:
        own = settings(self.store.url)
        own["broker"]["slave_reads"] = "rack"
        own["node"] = {"rack": f"r{peer_id}"}
        return own


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Racked]:
    made = Racked(tmp_path)
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def free(bootstrap: str) -> None:
    """Have the disks keep nothing of what is copied."""
    entry = ConfigEntry("local.retention.bytes", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()


def test_it_goes_on_without_a_gap_and_is_not_reset(copied: Racked) -> None:
    copied.produce()
    master = copied.master(via=1)
    slave = next(one for one in (1, 2, 3) if one != master)
    own = {"bootstrap.servers": copied.layout.bootstrap, "group.id": "g", **LITTLE}
    own |= {"client.rack": f"r{slave}", "auto.offset.reset": "latest"}
    consumer = Consumer(own)
    got: list[int | None] = []

    def take(count: int) -> bool:
        for message in consumer.consume(1, 0.5):
            assert message.error() is None, message.error()
            got.append(message.offset())
        return len(got) >= count

    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert wait_until(partial(take, FIRST), 120), copied.layout.tails()
        copied.produce()
        free(copied.layout.bootstrap)
        until(partial(is_freed, copied.layout.nodes[master], len(copied.values)), copied)
        assert wait_until(partial(take, len(copied.values)), 120), (len(got), got[-1:])
    finally:
        consumer.close()
    assert got == list(range(len(copied.values)))
