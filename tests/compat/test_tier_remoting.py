"""RocketMQ's stock clients read a topic of which the disks have the end: they get all of it."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.node import NodeProcess
from harness.ports import free_port
from harness.waiting import wait_until
from harness.workload import create_topic
from tests.compat.rocketmq_client import POPPING, client, running_client
from tests.integration.clients import check_all_acked, send
from tests.integration.test_tier import (
    COUNT,
    SMALL_BATCHES,
    TOPIC,
    VALUE_BYTES,
    Directory,
    settings,
    until,
)
from tests.integration.test_tier_reads import FREED, is_freed

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where such a node listens to remoting clients."""
    port = free_port()
    own = settings(Directory(tmp_path / "store").url)
    own["remoting"] = {"port": port}
    with NodeProcess(tmp_path / "node", settings=own) as node:
        create_topic(node.bootstrap, TOPIC, 1, FREED)
        values = [b"%d." % number + b"x" * VALUE_BYTES for number in range(COUNT)]
        check_all_acked(send(node.bootstrap, TOPIC, values, settings=SMALL_BATCHES), values)
        until(partial(is_freed, node, COUNT), node)
        yield f"127.0.0.1:{port}"


def numbers(bodies: list[str]) -> Counter[str]:
    return Counter(body.partition(".")[0] for body in bodies)


def test_a_pull_consumer_and_one_that_pops_get_what_only_the_store_has(
    address: str, tmp_path: Path
) -> None:
    every = Counter(str(number) for number in range(COUNT))
    *messages, done = client(tmp_path, "lite", address, TOPIC, "pulling", COUNT)
    assert done == {"done": True}
    assert numbers([one["body"] for one in messages]) == every
    client(tmp_path, "mode", address, TOPIC, "popping", "POP", source=POPPING)
    popping = (tmp_path, "push", address, TOPIC, "popping", COUNT)
    with running_client(*popping, source=POPPING) as running:
        assert wait_until(lambda: any("done" in one for one in running.told()), 100)
        told = running.finish()
    bodies = [one["consumed"] for one in told if "consumed" in one]
    assert set(numbers(bodies)) == set(every)
