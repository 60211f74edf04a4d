"""A fixed master with slaves, the way into controller mode and back."""

from pathlib import Path

import pytest

from harness.workload import Load, Workload, create_topic
from tests.integration.layouts import Layout

pytestmark = pytest.mark.process

LOAD = Load(topic="history", partitions=2, producers=2, records_per_second=400)


def test_a_fixed_master_gets_slaves_then_controllers_and_becomes_fixed_again(
    tmp_path: Path,
) -> None:
    with Layout(tmp_path) as layout:
        layout.add(1).start()
        create_topic(layout.bootstrap, LOAD.topic, LOAD.partitions)
        for slave in (2, 3):
            layout.add(slave, voters=(1,)).start()
            layout.do("set", "add", "1", str(slave), via=1)
        layout.do("cluster", "failover", "off", via=2)
        layout.wait_in_step(1, [1, 2, 3], via=2)
        workload = Workload(layout.bootstrap, LOAD)
        workload.start()
        try:
            assert workload.wait_for(500)
            _the_master_comes_back_as_master(layout, workload)
            _into_controller_mode(layout, workload)
            _and_back(layout, workload)
        finally:
            report = workload.finish()
        assert workload.fatal_errors == []
        assert report.is_clean(), report.findings[:3]


def _go_on(layout: Layout, workload: Workload, records: int = 300) -> None:
    assert workload.wait_for(workload.acked + records), layout.tails()


def _the_master_comes_back_as_master(layout: Layout, workload: Workload) -> None:
    layout.nodes[1].kill()
    layout.nodes[1].start()
    layout.wait_for_master(1, 1, via=1)
    _go_on(layout, workload)
    layout.wait_in_step(1, [1, 2, 3], via=3)


def _into_controller_mode(layout: Layout, workload: Workload) -> None:
    for voter in (2, 3):
        layout.do("controller", "add", str(voter), layout.controller_address(voter), via=1)
    layout.do("cluster", "failover", "on", via=1)
    layout.nodes[1].kill()
    layout.wait(1, lambda one: one["master"] in (2, 3), via=2)
    _go_on(layout, workload)
    layout.nodes[1].start()
    layout.wait_in_step(1, [1, 2, 3], via=1)


def _and_back(layout: Layout, workload: Workload) -> None:
    layout.do("set", "transfer", "1", "--to", "1", via=2)
    layout.do("cluster", "failover", "off", via=3)
    layout.do("controller", "transfer", "1", via=3)
    for voter in (2, 3):
        layout.do("controller", "remove", str(voter), via=1)
    layout.nodes[2].kill()
    _go_on(layout, workload)
    layout.nodes[2].start()
    layout.wait_in_step(1, [1, 2, 3], via=1)
    epoch = layout.replica_set(1, via=1)["leader_epoch"]
    layout.nodes[1].kill()
    layout.nodes[1].start()
    layout.wait(1, lambda one: one["master"] == 1 and one["leader_epoch"] > epoch, via=2)
    _go_on(layout, workload)
