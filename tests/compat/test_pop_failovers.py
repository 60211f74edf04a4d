"""RocketMQ's stock Java client popping from three nodes, of which one ends and comes back."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from tests.compat.rocketmq_client import POPPING, RunningClient, running_client

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

QUEUES = 6
MORE = 100
"""Messages that go through before the next thing happens."""
UNTIL_SECONDS = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", has_remoting=True) as cluster:
        yield cluster


def counts(told: list[dict[str, Any]]) -> tuple[int, int]:
    """How many messages were sent, and how many different ones popped."""
    sent = {one["sent"] for one in told if "sent" in one}
    return len(sent), len({one["popped"] for one in told if "popped" in one})


def await_more(running: RunningClient) -> None:
    """Wait until further messages were both sent and popped."""
    begun = counts(running.told())

    def has_more() -> bool:
        now = counts(running.told())
        return all(one >= then + MORE for one, then in zip(now, begun, strict=True))

    assert wait_until(has_more, UNTIL_SECONDS), running.told()[-3:]


def kill(cluster: ClusterProcess, broker_id: int) -> None:
    cluster.nodes[broker_id].kill()


def stop(cluster: ClusterProcess, broker_id: int) -> None:
    cluster.nodes[broker_id].stop()


@pytest.mark.parametrize("end", [kill, stop])
def test_nothing_acknowledged_is_popped_again_and_nothing_is_lost_while_masters_end(
    cluster: ClusterProcess, tmp_path: Path, end: Callable[[ClusterProcess, int], None]
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("orders", QUEUES, 3)])["orders"].result(60)
    addresses = ";".join(f"127.0.0.1:{port}" for port in cluster.remoting_ports.values())
    with running_client(
        tmp_path, "through", addresses, "orders", "shop", source=POPPING
    ) as running:
        await_more(running)
        for queue in (0, 1):
            leader = cluster.leader_of("orders", queue)
            end(cluster, leader)
            await_more(running)
            cluster.nodes[leader].start()
            await_more(running)
        told = running.finish()
    assert told[-1] == {"left": 0}, "all that was sent is acknowledged"
    assert not [one for one in told if one.get("again")], "acknowledged, and popped again"
    popped = Counter(one["popped"] for one in told if "popped" in one)
    assert popped.keys() >= {one["sent"] for one in told if "sent" in one}
