"""Nodes and members that come and go while clients write and read."""

from pathlib import Path

import pytest

from harness.ports import UP_PORTS, free_port
from harness.waiting import wait_until
from harness.workload import Load, Workload, create_topic, read_all
from tests.cli.launched import launched
from tests.integration.clients import send_all
from tests.integration.layouts import WAIT_SECONDS, Layout, run_penstock

pytestmark = pytest.mark.process

LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=400)
VALUES = [b"%d" % number for number in range(100)]


def test_a_node_alone_becomes_a_cluster_of_three_with_its_records(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port(UP_PORTS)
    with launched(data, port=port) as alone:
        create_topic(alone.bootstrap, "kept", 1)
        send_all(alone.bootstrap, "kept", VALUES)
    with launched(data, "--nodes", "3", port=port) as cluster:
        for broker in ("2", "3"):
            code, printed = run_penstock("set", "add", "1", broker, "--data", str(data))
            assert code == 0, printed
        assert wait_until(lambda: _in_step(data) == "1,2,3", WAIT_SECONDS)
        code, printed = run_penstock("set", "transfer", "1", "--to", "3", "--data", str(data))
        assert code == 0, printed
        send_all(cluster.bootstrap, "kept", VALUES)
        polls = read_all(cluster.bootstrap, "kept", 1)
    assert [value for poll in polls for _, value in poll.records] == 2 * [
        value.decode() for value in VALUES
    ]


def _in_step(data: Path) -> str:
    code, printed = run_penstock("set", "list", "--data", str(data))
    rows = [line.split() for line in printed.splitlines() if line.startswith("1 ")]
    return rows[0][4] if code == 0 and rows else ""


def test_brokers_join_take_over_and_leave_under_load(tmp_path: Path) -> None:
    with Layout(tmp_path) as layout:
        for peer_id in (1, 2, 3):
            layout.add(peer_id, voters=(1, 2, 3), replicas=3).launch()
        for node in layout.nodes.values():
            node.wait_ready()
        workload = Workload(layout.bootstrap, LOAD)
        workload.start()
        try:
            assert workload.wait_for(500)
            _replace_a_member(layout)
            _go_on(layout, workload)
            _drain_and_stop(layout, old=2, via=3)
            _go_on(layout, workload)
        finally:
            report = workload.finish()
        assert workload.fatal_errors == []
        assert report.is_clean(), report.findings[:3]


def _go_on(layout: Layout, workload: Workload) -> None:
    assert workload.wait_for(workload.acked + 300), layout.tails()


def _replace_a_member(layout: Layout) -> None:
    """Broker 4 takes broker 1's place in set 1, and leads it."""
    layout.add(4, voters=(1, 2, 3), replicas=3).start()
    layout.do("set", "add", "1", "4", via=4)
    layout.wait_in_step(1, [1, 2, 3, 4], via=4)
    layout.do("set", "transfer", "1", "--to", "4", via=2)
    layout.do("set", "remove", "1", "1", via=2)
    layout.wait_for_master(1, 4, via=3)
    layout.wait_in_step(1, [2, 3, 4], via=3)


def _drain_and_stop(layout: Layout, *, old: int, via: int) -> None:
    assert "can be stopped" in layout.do("node", "drain", str(old), via=via)
    brokers = {one["broker_id"]: one for one in layout.status(via)["brokers"]}
    assert brokers[old]["is_draining"]
    assert brokers[old]["master_count"] == 0
    assert layout.nodes[old].stop() == 0
    layout.nodes[old].start()
    layout.do("node", "drain", str(old), "--undo", via=via)
    for one in layout.status(via)["sets"]:
        members = sorted(member["broker_id"] for member in one["members"])
        layout.wait_in_step(one["replica_set_id"], members, via=via)
