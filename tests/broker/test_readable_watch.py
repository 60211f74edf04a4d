"""What waits until records are readable is noted once, however often consumers ask."""

import pytest

from penstock.broker.config import SlaveReads
from penstock.broker.partitions import HostedPartition
from penstock.protocol.api_keys import ApiKey
from tests.broker.cluster import Cluster, fetch_fields
from tests.broker.test_role_changes import events


def wakes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often partitions are woken by a record of another topic."""
    woken: list[HostedPartition] = []
    plain = HostedPartition.wake

    def wake(self: HostedPartition) -> None:
        woken.append(self)
        plain(self)

    with monkeypatch.context() as patch:
        patch.setattr(HostedPartition, "wake", wake)
        cluster.nodes[0].produce(b"b", topic="other")
        cluster.replicate()
    return len(woken)


def test_polls_at_an_idle_slave_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = events(slave_reads=SlaveReads.RACK)
    cluster.create("other")
    cluster.nodes[0].produce(b"a")
    cluster.replicate()
    for _ in range(100):
        cluster.nodes[1].fetch(1, wait_ms=100, rack="rack-1")
        cluster.world.advance(200)
    assert len(cluster.nodes[1].member._visible) < 10
    cluster.nodes[1].fetch(1, wait_ms=20_000, rack="rack-1")
    for _ in range(3):
        assert wakes(cluster, monkeypatch) < 10


def test_polls_while_nothing_is_confirmed_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = events()
    cluster.create("other")
    cluster.nodes[0].produce(b"a")
    cluster.world.run()
    for _ in range(100):
        asked = cluster.nodes[0].fetch(0, wait_ms=100)
        cluster.world.run()
        cluster.world.advance(200)
        assert asked.answer is not None
    assert len(cluster.nodes[0].member._visible) < 10
    assert wakes(cluster, monkeypatch) < 10


def test_fetches_that_wait_for_what_is_not_confirmed_are_queued_once() -> None:
    cluster = events()
    node = cluster.nodes[0]
    node.produce(b"a")
    cluster.world.run()
    fields = fetch_fields("events", 0, 60_000, -1, -1) | {"min_bytes": 1 << 20, "rack_id": ""}
    waiting = [node.send(ApiKey.FETCH, 12, fields) for _ in range(20)]
    assert len(node.member._visible) == 1
    cluster.replicate()
    assert [asked.answer for asked in waiting] == [None] * 20
    assert len(node.member._visible) == len(node.member._watched) == 0
