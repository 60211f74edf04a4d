"""The control plane is gone and the data plane goes on; roles are kept on disk (H-17, H-18)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.harness.cluster import ClusterProcess
from benchmarks.harness.workload import Load, Workload, create_topic, wait_until

from tests.integration.clients import acked, send
from tests.integration.layouts import FAST, WAIT_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=400)
SETTINGS = {**FAST, "cluster": {"start_timeout_ms": 2000}}
START_SECONDS = 30.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, controllers=1, settings=SETTINGS) as running:
        create_topic(running.bootstrap, LOAD.topic, LOAD.partitions)
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
    masters = {one["replica_set_id"]: one["master"] for one in cluster.status()["sets"]}
    assert sorted(masters.values()) == [1, 2, 3]
    cluster.controllers[101].kill()
    for node in cluster.nodes.values():
        node.kill()
    for broker_id in (1, 2):
        cluster.nodes[broker_id].launch()
    for broker_id in (1, 2):
        cluster.nodes[broker_id].wait_ready(START_SECONDS)
    early = {"message.timeout.ms": 3000}
    assert not acked(send(cluster.nodes[1].bootstrap, LOAD.topic, [b"early"], settings=early))
    cluster.nodes[3].start(wait_seconds=START_SECONDS)

    def is_taken() -> bool:
        answers = [
            acked(send(cluster.bootstrap, LOAD.topic, [b"late"], partition=one))
            for one in range(LOAD.partitions)
        ]
        return all(answers)

    assert wait_until(is_taken, WAIT_SECONDS), cluster.log_tails()
