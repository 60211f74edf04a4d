"""Consumers that read from slaves what only the store has: from the beginning, while the disk is
freed of what they were to read next, and while their master dies.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.integration.test_housekeeper import metric
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
        own = settings(self.store.url, lease_ms=300_000, grace_ms=301_000)
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


def reads_of(copied: Copied, peer_id: int) -> float:
    return metric(copied.layout.nodes[peer_id], "penstock_tier_reads_total")


class Reader:
    """A consumer in the rack of a slave, which has to find every record where it asks for it."""

    def __init__(self, copied: Copied, slave: int) -> None:
        own = {"bootstrap.servers": copied.layout.bootstrap, "group.id": "g", **LITTLE}
        own |= {"client.rack": f"r{slave}", "auto.offset.reset": "error"}
        self._copied = copied
        self._consumer = Consumer(own)
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self.got: list[int | None] = []
        self.refusals: list[str] = []

    def take(self, count: int) -> None:
        """Read until there are so many records in all."""
        is_over = wait_until(lambda: self._has(count) or self.refusals, UNTIL_SECONDS)
        assert not self.refusals
        assert is_over, (len(self.got), self.got[-1:], self._copied.layout.tails())

    def is_kept_waiting(self, node: NodeProcess) -> bool:
        """Read on; return whether the node's store has failed it by now."""
        self._has(0)
        return metric(node, "penstock_tier_read_failures_total") > 0

    def _has(self, count: int) -> bool:
        for message in self._consumer.consume(1, 0.5):
            if message.error() is None:
                self.got.append(message.offset())
            else:
                self.refusals.append(str(message.error()))
        return len(self.got) >= count

    def close(self) -> None:
        self._consumer.close()


def until_freed(copied: Copied, master: int, slave: int) -> None:
    """Wait until the disks of both have nothing of what is copied.

    The master says in the log from where on they have records: a slave hears it a little later.
    """
    first, second = copied.layout.nodes[master], copied.layout.nodes[slave]
    until(partial(is_freed, first, len(copied.values)), copied)
    name = f'penstock_log_end_position_bytes{{replica_set="{copied.set_id}"}}'
    end = metric(first, name)
    assert end > 0
    until(lambda: metric(second, name) >= end, copied)


def freed(copied: Copied) -> tuple[int, int]:
    """Have the disks keep nothing of what is written; return the master, and one of its slaves."""
    copied.produce()
    copied.produce()
    master = copied.master(via=1)
    slave = next(one for one in (1, 2, 3) if one != master)
    free(copied.layout.bootstrap)
    until_freed(copied, master, slave)
    return master, slave


def test_it_goes_on_without_a_gap_and_is_not_reset(copied: Racked) -> None:
    copied.produce()
    master = copied.master(via=1)
    slave = next(one for one in (1, 2, 3) if one != master)
    with closing(Reader(copied, slave)) as reader:
        reader.take(FIRST)
        copied.produce()
        free(copied.layout.bootstrap)
        until_freed(copied, master, slave)
        reader.take(len(copied.values))
    assert reader.got == list(range(len(copied.values)))
    assert reads_of(copied, slave) > 0


def test_history_comes_from_the_store_through_the_slave_alone(copied: Racked) -> None:
    master, slave = freed(copied)
    with closing(Reader(copied, slave)) as reader:
        reader.take(len(copied.values))
    assert reader.got == list(range(len(copied.values)))
    assert reads_of(copied, slave) > 0
    assert reads_of(copied, master) == 0


def test_a_slave_goes_on_with_history_while_its_master_dies_and_under_the_next_one(
    copied: Racked,
) -> None:
    master, slave = freed(copied)
    with closing(Reader(copied, slave)) as reader:
        reader.take(FIRST)
        before = reads_of(copied, slave)
        assert before > 0
        copied.layout.nodes[master].kill()
        reader.take(len(copied.values))
    assert reader.got == list(range(len(copied.values)))
    assert reads_of(copied, slave) > before
