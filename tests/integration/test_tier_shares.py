"""Share groups of a topic that disks have the end of: stock members get all of it, each once."""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from harness.node import NodeProcess
from harness.share_groups import configure_group
from harness.waiting import UNTIL_SECONDS
from harness.workload import create_topic
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import COUNT, TOPIC, Directory, offset_at, produce, settings, until
from tests.integration.test_tier_reads import EARLIEST_LOCAL, FREED, is_freed

pytestmark = pytest.mark.process

GROUP = "shared"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    own = settings(Directory(tmp_path / "store").url)
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        yield node


def shared_numbers(node: NodeProcess, count: int) -> Counter[str]:
    """Return how often a member of the group got each value, until there are so many."""
    own = {"bootstrap.servers": node.bootstrap, "group.id": GROUP, "log_level": 0}
    consumer = ShareConsumer({**own, "share.acknowledgement.mode": "explicit"})
    got: Counter[str] = Counter()
    deadline = time.monotonic() + UNTIL_SECONDS
    try:
        consumer.subscribe([TOPIC])
        while len(got) < count:
            assert time.monotonic() < deadline, (len(got), node.log_tail(50))
            found = [one for one in consumer.poll(0.5) if one.error() is None]
            for one in found:
                got[(one.value() or b"").partition(b".")[0].decode()] += 1
                consumer.acknowledge(one, AcknowledgeType.ACCEPT)
            if found:
                consumer.commit_sync(UNTIL_SECONDS)
    finally:
        consumer.close()
    return got


@pytest.mark.parametrize("reset", ["earliest", "by_duration:PT1H"])
def test_a_share_group_begins_where_the_partition_does(node: NodeProcess, reset: str) -> None:
    count = len(produce(node, TOPIC, 0, COUNT))
    until(partial(is_freed, node, count), node)
    assert offset_at(node, EARLIEST_LOCAL) > 0
    configure_group(node.bootstrap, GROUP, share_auto_offset_reset=reset)
    assert shared_numbers(node, count) == Counter(str(number) for number in range(count))
    assert metric(node, "penstock_tier_reads_total") >= 1


def test_a_share_group_goes_on_where_the_disks_were_freed_meanwhile(node: NodeProcess) -> None:
    configure_group(node.bootstrap, GROUP)
    produce(node, TOPIC, 0, 1)
    assert shared_numbers(node, 1) == {"0": 1}
    count = 1 + len(produce(node, TOPIC, 1, COUNT))
    until(partial(is_freed, node, count), node)
    assert shared_numbers(node, count - 1) == Counter(str(number) for number in range(1, count))
