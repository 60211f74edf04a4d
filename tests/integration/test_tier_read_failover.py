"""Masters that have freed their disks are killed: the next one serves what only the store has."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.workload import read_all
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import TOPIC
from tests.integration.test_tier_failover import Copied, until
from tests.integration.test_tier_reads import is_freed, told_start

pytestmark = pytest.mark.process


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Copied]:
    made = Copied(tmp_path, **{"local.retention.bytes": "1"})
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def test_what_only_the_store_has_outlives_two_masters(copied: Copied) -> None:
    layout = copied.layout
    for _ in range(2):
        copied.produce()
        master = copied.master(via=1)
        until(partial(is_freed, layout.nodes[master], len(copied.values)), copied)
        layout.nodes[master].kill()
        assert told_start(layout.bootstrap) == 0, layout.tails()
        polls = read_all(layout.bootstrap, TOPIC, 1)
        numbers = [str(value) for poll in polls for _, value in poll.records]
        assert numbers == [str(number) for number in range(len(copied.values))]
        layout.nodes[master].start()
        layout.wait_in_step(copied.set_id, [1, 2, 3], via=master)
    assert sum(metric(node, "penstock_tier_reads_total") for node in layout.nodes.values()) > 0
