"""The level of the metadata goes down and up on a cluster that is at work, a node at a time."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from harness.workload import Load, Workload, create_topic
from penstock.controller.metadata.levels import (
    FIRST_LEVEL,
    METADATA,
    METADATA_LEVELS,
    SUPPORTED,
)
from tests.integration.layouts import WAIT_SECONDS, Layout, bytes_of

pytestmark = [pytest.mark.process, pytest.mark.long]

LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=300)
FEATURE = b"penstock.metadata"
"""It stands in every record that an earlier release can not read."""
NODES = (1, 2, 3)
NEWEST = METADATA_LEVELS.highest


def test_the_level_is_lowered_and_raised_under_load_with_a_restart_of_each_node_at_each_level(
    tmp_path: Path,
) -> None:
    with Layout(tmp_path) as layout:
        for peer_id in NODES:
            layout.add(peer_id, voters=NODES, replicas=3).launch()
        for node in layout.nodes.values():
            node.wait_ready()
        workload = Workload(layout.bootstrap, LOAD)
        workload.start()
        try:
            assert workload.wait_for(300)
            known = (NEWEST, dict.fromkeys(NODES, NEWEST))
            assert wait_until(lambda: _levels(layout) == known, WAIT_SECONDS)
            epoch = _features(layout)["epoch"]
            _lower(layout)
            _restart_each(layout, workload)
            _raise(layout)
            assert _features(layout)["epoch"] > epoch > 0
            _restart_each(layout, workload)
        finally:
            report = workload.finish()
        assert workload.fatal_errors == []
        assert report.is_clean(), report.findings[:3]


def _lower(layout: Layout) -> None:
    assert wait_until(lambda: all(_holds_a_level(layout, one) for one in NODES), WAIT_SECONDS)
    assert (
        layout.do("cluster", "downgrade", "--level", "1", via=1).strip().endswith("is at level 1")
    )
    assert _levels(layout)[0] == 1
    for peer_id in NODES:
        assert wait_until(
            partial(lambda one: not _holds_a_level(layout, one), peer_id), WAIT_SECONDS
        ), f"node {peer_id} keeps records that an earlier release can not read"
    wanted = f"can not be set to level 9: broker 1 reads {METADATA_LEVELS}"
    assert wait_until(lambda: wanted in _refusal(layout, "--level", "9", via=2), WAIT_SECONDS)


def _refusal(layout: Layout, *options: str, via: int) -> str:
    """Why the level is not raised; a controller that was just elected may not know yet."""
    code, printed = layout.run("cluster", "upgrade", *options, via=via)
    assert code != 0, printed
    return printed


def _raise(layout: Layout) -> None:
    layout.nodes[3].stop()
    wanted = "broker 3 is not connected"
    assert wait_until(lambda: wanted in _refusal(layout, via=1), WAIT_SECONDS)
    layout.nodes[3].start()
    assert layout.do("cluster", "upgrade", via=2).splitlines() == [
        f"{feature} is at level {levels.highest}"
        for feature, levels in SUPPORTED.items()
        if levels.highest > FIRST_LEVEL
    ]
    create_topic(layout.bootstrap, "of-level-2", 1)


def _restart_each(layout: Layout, workload: Workload) -> None:
    for node in layout.nodes.values():
        assert node.stop() == 0, node.log_tail()
        node.start()
        for set_id in NODES:
            layout.wait_in_step(set_id, list(NODES), via=1)
        assert workload.wait_for(workload.acked + 100), layout.tails()


def _levels(layout: Layout) -> tuple[int, dict[int, int]]:
    """The level that holds, and the highest that each process reads."""
    document = _features(layout)
    (level,) = (one["level"] for one in document["features"] if one["feature"] == METADATA)
    return level, {one["id"]: one["highest"] for one in document["processes"]}


def _features(layout: Layout) -> Any:
    return json.loads(layout.do("cluster", "features", "-o", "json", via=1))


def _holds_a_level(layout: Layout, peer_id: int) -> bool:
    files = (layout.nodes[peer_id].data / "metadata").iterdir()
    return any(FEATURE in bytes_of(file) for file in files)
