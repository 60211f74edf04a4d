"""Three nodes whose metadata log is in an etcd: they form a cluster and fail over."""

from pathlib import Path

import pytest

from harness.cluster import ClusterProcess
from harness.node import NodeProcess
from harness.waiting import wait_until
from harness.workload import Load, Workload
from tests.integration.etcd_server import EtcdServer, why_no_etcd
from tests.integration.layouts import FAST, WAIT_SECONDS, run_penstock

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(120),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
]

LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=400)


def test_nodes_over_an_etcd_form_a_cluster_and_fail_over(tmp_path: Path) -> None:
    with EtcdServer(tmp_path / "etcd") as etcd:
        settings: dict[str, dict[str, object]] = {
            **FAST,
            "cluster": {"consensus": "etcd"},
            "etcd": {"endpoints": [etcd.url], "lease_ttl_s": 2},
        }
        with ClusterProcess(tmp_path / "cluster", settings=settings) as cluster:
            workload = Workload(cluster.bootstrap, LOAD)
            workload.start()
            try:
                assert workload.wait_for(500)
                active = cluster.status()["controller"]["active_id"]
                cluster.nodes[active].kill()  # active controller and master in one
                assert wait_until(lambda: _masters(cluster) <= {1, 2, 3} - {active}, WAIT_SECONDS)
                assert workload.wait_for(workload.acked + 500)
                cluster.nodes[active].start()
                assert wait_until(lambda: _are_in_step(cluster), WAIT_SECONDS)
                config = str(cluster.nodes[active].config)
                code, printed = run_penstock("controller", "status", "--config", config)
                assert code == 0, printed
                code, printed = run_penstock("controller", "remove", "1", "--config", config)
                assert (code, "not changed this way" in printed) == (1, True), printed
            finally:
                report = workload.finish()
            assert workload.fatal_errors == []
            assert report.is_clean(), report.findings[:3]


def _sets(cluster: ClusterProcess) -> list[dict[str, object]]:
    try:
        found: list[dict[str, object]] = cluster.status()["sets"]
    except Exception:  # noqa: BLE001  no process is active just now
        return []
    return found


def _masters(cluster: ClusterProcess) -> set[object]:
    return {one["master"] for one in _sets(cluster)} or {-1}


def _are_in_step(cluster: ClusterProcess) -> bool:
    sets = _sets(cluster)
    return bool(sets) and all(one["sync_state_set"] == [1, 2, 3] for one in sets)


def test_etcd_without_voters_is_refused_with_one_clear_line(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, settings={"cluster": {"consensus": "etcd"}})
    node.launch()
    assert node.wait_exit() == 2
    assert node.log_tail(5).count("\n") <= 1
    assert "cluster.voters is empty" in node.log_tail(5)
