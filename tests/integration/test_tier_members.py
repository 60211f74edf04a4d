"""A member that joins when disks were freed copies what they have, and then serves all of it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.workload import read_all
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import TOPIC, offset_at, settings
from tests.integration.test_tier_disks import disk_bytes
from tests.integration.test_tier_failover import COUNT, VALUE_BYTES, Copied, until
from tests.integration.test_tier_reads import EARLIEST, EARLIEST_LOCAL, is_freed, told_start

pytestmark = pytest.mark.process

NEW = 4
ROUNDS = 2
WRITTEN = ROUNDS * COUNT * VALUE_BYTES


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Copied]:
    made = Copied(tmp_path, **{"local.retention.bytes": "1"})
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def bytes_of(node: NodeProcess) -> int:
    """Return what all records on its disk take."""
    return disk_bytes(node, "log") + disk_bytes(node, "second")


def all_read(copied: Copied) -> bool:
    polls = read_all(copied.layout.bootstrap, TOPIC, 1)
    found = [str(value) for poll in polls for _, value in poll.records]
    return found == [str(number) for number in range(len(copied.values))]


def test_a_member_that_takes_the_place_of_another_serves_what_only_the_store_has(
    copied: Copied,
) -> None:
    layout, set_id = copied.layout, str(copied.set_id)
    for _ in range(ROUNDS):
        copied.produce()
        master = copied.master(via=1)
        until(partial(is_freed, layout.nodes[master], len(copied.values)), copied)
    until(lambda: bytes_of(layout.nodes[master]) < WRITTEN // 2, copied)  # files go later
    local_start = offset_at(layout.nodes[master], EARLIEST_LOCAL)
    slave = next(one for one in (1, 2, 3) if one != master)
    kept = next(one for one in (1, 2, 3) if one not in {master, slave})

    new = layout.add(NEW, voters=(1, 2, 3), replicas=3, settings=settings(copied.store.url))
    new.launch()
    new.wait_ready()
    layout.do("set", "remove", set_id, str(slave), via=kept)
    layout.do("set", "add", set_id, str(NEW), via=kept)
    members = sorted({master, kept, NEW})
    layout.wait_in_step(copied.set_id, members, via=kept)
    # It has what the others have on their disks, some in both forms, and not what was written.
    assert bytes_of(new) < WRITTEN * 3 // 4
    assert local_start > COUNT

    layout.do("set", "transfer", set_id, "--to", str(NEW), via=kept)
    layout.wait_for_master(copied.set_id, NEW, via=kept)
    layout.nodes[master].kill()
    assert told_start(new.bootstrap) == 0, layout.tails()
    assert offset_at(new, EARLIEST) == 0
    assert offset_at(new, EARLIEST_LOCAL) >= local_start
    assert all_read(copied)
    assert metric(new, "penstock_tier_reads_total") > 0
    copied.produce()
    until(partial(is_freed, new, len(copied.values)), copied)
    assert all_read(copied)
