"""Nodes of an earlier release and of this one in one cluster: replaced one by one, and back.

PENSTOCK_OLDER names the earlier release's `src` directory; `make mixed OLDER=commit` gives it one.
"""

import json
import os
import re
from pathlib import Path

import pytest

from harness.node import LOOPBACK, NodeFailed, Place
from harness.waiting import wait_until
from harness.workload import Load, Workload, create_topic
from penstock.controller.metadata.levels import METADATA, METADATA_LEVELS
from tests.integration.layouts import WAIT_SECONDS, Layout, bytes_of

OLDER = os.environ.get("PENSTOCK_OLDER", "")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not OLDER, reason="no earlier release: make mixed OLDER=commit"),
]

NODES = (1, 2, 3)
LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=300)
_OLD = Place(LOOPBACK, environment={"PYTHONPATH": OLDER})
_NEW = Place(LOOPBACK)


class _Rolling:
    """A cluster under load whose nodes get another release."""

    def __init__(self, layout: Layout, workload: Workload) -> None:
        self.layout = layout
        self._workload = workload

    def replace(self, peer_id: int, release: Place) -> None:
        """Give a node another release, and go on when all are in step."""
        node = self.layout.nodes[peer_id]
        assert node.stop() == 0, node.log_tail()
        node.place = release
        node.start()
        self.go_on()

    def go_on(self) -> None:
        """Wait until all members are in step and more is acknowledged."""
        for set_id in NODES:
            self.layout.wait_in_step(set_id, list(NODES), via=1)
        assert self._workload.wait_for(self._workload.acked + 200), self.layout.tails()

    def lead(self, peer_id: int) -> None:
        """Make a node's controller the active one."""

        def leads() -> bool:
            text = self.layout.do("controller", "status", "-o", "json", via=1)
            if json.loads(text)["leader_id"] == peer_id:
                return True
            self.layout.run("controller", "transfer", str(peer_id), via=1)
            return False

        assert wait_until(leads, WAIT_SECONDS), self.layout.tails()

    def refused(self, *command: str) -> str:
        """Return why a command was not done."""
        code, printed = self.layout.run(*command, via=1)
        assert code != 0, printed
        return printed

    def level(self) -> int:
        """Return the level that holds, as the operator sees it."""
        text = self.layout.do("cluster", "features", "-o", "json", via=1)
        features = json.loads(text)["features"]
        (level,) = (one["level"] for one in features if one["feature"] == METADATA)
        return int(level)

    def holds_this_level(self, peer_id: int) -> bool:
        """Whether a node has a record on its disk that the earlier release can not read."""
        files = (self.layout.nodes[peer_id].data / "metadata").iterdir()
        record_part = METADATA.encode() + bytes([METADATA_LEVELS.highest])
        return any(record_part in bytes_of(file) for file in files)


def test_a_cluster_goes_to_this_release_raises_its_level_if_there_is_one_and_goes_back_under_load(
    tmp_path: Path,
) -> None:
    with Layout(tmp_path) as layout:
        for peer_id in NODES:
            layout.add(peer_id, voters=NODES, replicas=3).place = _OLD
        for node in layout.nodes.values():
            node.launch()
        for node in layout.nodes.values():
            node.wait_ready()
        create_topic(layout.bootstrap, "of-the-earlier-release", 1)
        workload = Workload(layout.bootstrap, LOAD)
        workload.start()
        try:
            assert workload.wait_for(300)
            rolling = _Rolling(layout, workload)
            older_level = rolling.level()
            if older_level == METADATA_LEVELS.highest:
                _go_there_and_back(rolling)
            else:
                _go_to_this_release(rolling, older_level)
                _the_earlier_one_does_not_start_above_its_level(rolling)
                _go_back(rolling, older_level)
        finally:
            report = workload.finish()
        assert workload.fatal_errors == []
        assert report.is_clean(), report.findings[:3]


def _go_there_and_back(rolling: _Rolling) -> None:
    """Of releases with one level nothing is raised, and each controller is of each of them."""
    for release in (_NEW, _OLD):
        for peer_id in NODES:
            rolling.replace(peer_id, release)
            rolling.lead(peer_id)
            rolling.go_on()


def _go_to_this_release(rolling: _Rolling, older_level: int) -> None:
    layout = rolling.layout
    to_this = ("cluster", "upgrade", "--level", str(METADATA_LEVELS.highest))
    reads = rf"reads (\d to )?{older_level}\b"
    rolling.replace(1, _NEW)
    rolling.lead(2)
    why = rolling.refused(*to_this)
    assert "controller transfer" in why or re.search(f"broker 2 {reads}", why), why
    rolling.lead(1)
    assert rolling.level() == older_level
    assert re.search(f"broker 2 {reads}: start a release there", rolling.refused(*to_this))
    rolling.replace(2, _NEW)
    rolling.lead(1)
    assert re.search(f"broker 3 {reads}: start a release there", rolling.refused(*to_this))
    rolling.replace(3, _NEW)
    layout.do("cluster", "upgrade", via=1)
    assert rolling.level() == METADATA_LEVELS.highest


def _the_earlier_one_does_not_start_above_its_level(rolling: _Rolling) -> None:
    node = rolling.layout.nodes[3]
    assert node.stop() == 0
    node.place = _OLD
    with pytest.raises(NodeFailed, match=r"a newer release wrote it|metadata is at level"):
        node.start()
    node.place = _NEW
    node.start()
    rolling.go_on()


def _go_back(rolling: _Rolling, older_level: int) -> None:
    rolling.layout.do("cluster", "downgrade", "--level", str(older_level), via=1)
    assert rolling.level() == older_level
    assert wait_until(
        lambda: not any(rolling.holds_this_level(one) for one in NODES), WAIT_SECONDS
    ), rolling.layout.tails()
    for peer_id in NODES:
        rolling.replace(peer_id, _OLD)
