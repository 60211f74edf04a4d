"""Three nodes whose disks are small: a topic is in the store, and their disks have little of it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.node import NodeProcess
from harness.waiting import wait_until
from harness.workload import create_topic, read_all
from penstock.extents.layout import FILE_BYTES_MIN
from penstock.storage.second_level.shrinking import SEGMENT_PART
from tests.integration.clients import check_all_acked, send
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import SEGMENT, TOPIC
from tests.integration.test_tier_failover import COUNT, VALUE_BYTES, Copied
from tests.integration.test_tier_reads import is_freed

pytestmark = pytest.mark.process

ROUNDS = 3
LITTLE, LITTLE_BYTES = "little", 100
LEVEL0_SEGMENTS = 8
"""Open, allocated ahead, closed and not sorted yet; those of other sets included."""


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Copied]:
    made = Copied(tmp_path, **{"local.retention.bytes": "1"})
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def commit(bootstrap: str, offset: int) -> None:
    """Have a group commit a position, as consumers do all the time."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def disk_bytes(node: NodeProcess, part: str) -> int:
    """Return what the files of one part take, of all sets of a node; some may go meanwhile."""
    total = 0
    for path in node.data.glob(f"set-*/{part}/*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def keeps_its_bound(node: NodeProcess, most: int) -> bool:
    """Whether level 0 is a few segments, and extent files are twice what is needed of them.

    And a little for each file: a part of a segment, and its head and tail. Together at most `most`
    bytes.
    """
    each = SEGMENT // SEGMENT_PART + FILE_BYTES_MIN
    needed = metric(node, "penstock_second_level_needed_bytes")
    files = metric(node, "penstock_second_level_files")
    second, log = disk_bytes(node, "second"), disk_bytes(node, "log")
    is_small = second <= 2 * needed + each * files + 4096
    return is_small and log <= LEVEL0_SEGMENTS * SEGMENT and second + log <= most


def test_disks_have_little_of_what_the_store_has_and_all_of_it_is_read(copied: Copied) -> None:
    layout = copied.layout
    create_topic(layout.bootstrap, LITTLE, 1)
    little: list[bytes] = []
    for _ in range(ROUNDS):
        values = [b"%d." % number + bytes(LITTLE_BYTES) for number in range(30)]
        check_all_acked(send(layout.bootstrap, LITTLE, values), values)
        little += values
        copied.produce()
        commit(layout.bootstrap, len(copied.values))
        master = layout.nodes[copied.master(via=1)]
        assert wait_until(partial(is_freed, master, len(copied.values)), 120), layout.tails()
    for node in layout.nodes.values():
        is_small = partial(keeps_its_bound, node, ROUNDS * COUNT * VALUE_BYTES // 5)
        assert wait_until(is_small, 120), node.log_tail(50)
        assert metric(node, "penstock_second_level_shrunk_failures_total") == 0
    assert metric(master, "penstock_second_level_shrunk_files_total") > 0
    polls = read_all(layout.bootstrap, TOPIC, 1)
    numbers = [str(value) for poll in polls for _, value in poll.records]
    assert numbers == [str(number) for number in range(len(copied.values))]
    polls = read_all(layout.bootstrap, LITTLE, 1)
    assert sum(len(poll.records) for poll in polls) == len(little)
