"""The control plane is gone and the data plane goes on; roles are kept on disk."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from harness.workload import Load, Workload, create_topic
from tests.integration.clients import acked, send
from tests.integration.layouts import FAST, WAIT_SECONDS, run_penstock

pytestmark = pytest.mark.process

LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=400)
SETTINGS: dict[str, dict[str, object]] = {
    **FAST,
    "cluster": {"start_timeout_ms": 2000},
    "controller": {**FAST["controller"], "preferred_master_delay_ms": 500},
}
EARLY: dict[str, object] = {"message.timeout.ms": 2500}
"""A record that nobody may take."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, controllers=1, settings=SETTINGS) as running:
        create_topic(running.bootstrap, LOAD.topic, LOAD.partitions)
        # Who starts slowly does not lead first; the controllers hand it its set then.
        assert wait_until(lambda: _masters(running) == [1, 2, 3], WAIT_SECONDS)
        yield running


def test_clients_go_on_and_a_broker_comes_back_with_every_controller_gone(
    cluster: ClusterProcess,
) -> None:
    workload = Workload(cluster.bootstrap, LOAD)
    workload.start()
    try:
        assert workload.wait_for(500)
        cluster.controllers[101].kill()
        assert workload.wait_for(workload.acked + 500)
        cluster.nodes[2].kill()  # nobody can record that it is gone: writes wait for it
        cluster.nodes[2].start()
        back_ns = time.monotonic_ns()
        assert wait_until(
            lambda: workload.has_acked_since(back_ns, range(LOAD.partitions)), WAIT_SECONDS
        ), cluster.log_tails()
    finally:
        report = workload.finish()
    assert workload.fatal_errors == []
    assert report.is_clean(), report.findings[:3]


def test_every_broker_restarted_without_controllers_has_its_last_role(
    cluster: ClusterProcess,
) -> None:
    """A master goes on only when each slave has shaken hands: with one missing it must not."""
    cluster.controllers[101].kill()
    for node in cluster.nodes.values():
        node.kill()
    for broker_id in (1, 2):
        cluster.nodes[broker_id].launch()
    for broker_id in (1, 2):
        cluster.nodes[broker_id].wait_ready()
    assert not acked(send(cluster.nodes[1].bootstrap, LOAD.topic, [b"early"], settings=EARLY))
    cluster.nodes[3].start()

    def is_taken() -> bool:
        answers = [
            acked(send(cluster.bootstrap, LOAD.topic, [b"late"], partition=one))
            for one in range(LOAD.partitions)
        ]
        return all(answers)

    assert wait_until(is_taken, WAIT_SECONDS), cluster.log_tails()


def test_without_failover_a_dead_master_is_waited_for(cluster: ClusterProcess) -> None:
    config = str(cluster.controllers[101].config)
    code, printed = run_penstock("cluster", "failover", "off", "--config", config)
    assert code == 0, printed
    epoch = _set_led_by_2(cluster)["leader_epoch"]
    cluster.nodes[2].kill()
    assert wait_until(lambda: not _is_live(cluster, 2), WAIT_SECONDS)
    assert not acked(send(cluster.bootstrap, LOAD.topic, [b"early"], partition=1, settings=EARLY))
    assert _set_led_by_2(cluster)["leader_epoch"] == epoch
    cluster.nodes[2].start()
    assert wait_until(lambda: _set_led_by_2(cluster)["leader_epoch"] > epoch, WAIT_SECONDS)
    assert _set_led_by_2(cluster)["master"] == 2


def _masters(cluster: ClusterProcess) -> list[int]:
    return sorted(one["master"] for one in cluster.status()["sets"])


def _is_live(cluster: ClusterProcess, broker_id: int) -> bool:
    brokers = {one["broker_id"]: one for one in cluster.status()["brokers"]}
    return bool(brokers[broker_id]["is_live"])


def _set_led_by_2(cluster: ClusterProcess) -> dict[str, Any]:
    sets = cluster.status()["sets"]
    return next(replica_set for replica_set in sets if replica_set["preferred_master"] == 2)
