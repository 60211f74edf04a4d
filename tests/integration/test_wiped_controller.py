"""Controllers that lose their disks, in real processes: they have no vote until they get it back.

An operator's command waits for an active controller longer than any election takes, so that its
refusal says that nobody was elected.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.node import NodeProcess
from harness.waiting import wait_until
from tests.integration.layouts import WAIT_SECONDS, Layout

pytestmark = pytest.mark.process

CONTROLLERS = (101, 102, 103)
BROKER = 1


def started(layout: Layout) -> None:
    for peer_id in CONTROLLERS:
        layout.add(peer_id, voters=CONTROLLERS, role="controller").launch()
    layout.add(BROKER, voters=CONTROLLERS).start()


def wipe(node: NodeProcess) -> None:
    node.kill()
    shutil.rmtree(node.data)
    node.data.mkdir()


def members(layout: Layout) -> dict[tuple[int, bool], dict[str, Any]]:
    """Return who keeps the metadata log, by id and whether it votes."""
    code, printed = layout.run("controller", "status", "-o", "json", via=BROKER)
    # A slow answer has a line of its own before it: the command says after 3 s that it waits.
    peers = json.loads(printed[printed.find("{") :])["peers"] if code == 0 else []
    return {(peer["peer_id"], peer["is_voter"]): peer for peer in peers}


def failover(layout: Layout) -> object:
    return layout.status(via=BROKER)["controller"]["is_failover_enabled"]


def active(layout: Layout) -> int:
    return int(layout.status(via=BROKER)["controller"]["active_id"])


def test_a_wiped_controller_elects_nobody_and_gets_its_vote_back(tmp_path: Path) -> None:
    with Layout(tmp_path) as layout:
        started(layout)
        leader = active(layout)
        wiped, behind = (layout.nodes[one] for one in CONTROLLERS if one != leader)
        lost_id = next(one for one, node in layout.nodes.items() if node is wiped)
        assert wait_until(lambda: (lost_id, True) in members(layout), WAIT_SECONDS), layout.tails()
        before = members(layout)[lost_id, True]["directory_id"]
        behind.kill()
        layout.do("cluster", "failover", "off", via=BROKER)
        layout.nodes[leader].kill()
        wipe(wiped)
        wiped.launch()
        behind.launch()
        code, printed = layout.run("cluster", "failover", "on", via=BROKER)
        assert code != 0, f"two of three, one of them empty, took it: {printed}"
        layout.nodes[leader].launch()
        assert wait_until(lambda: (lost_id, True) in members(layout), WAIT_SECONDS), layout.tails()

        def votes_again() -> bool:
            return members(layout).get((lost_id, True), {}).get("directory_id") not in {
                None, "", before,
            }  # fmt: skip

        assert wait_until(votes_again, WAIT_SECONDS), layout.tails()
        assert failover(layout) is False, "what two of three had agreed on is gone"


def test_controllers_with_empty_directories_wait_for_the_one_that_is_down(tmp_path: Path) -> None:
    with Layout(tmp_path) as layout:
        started(layout)
        layout.do("cluster", "failover", "off", via=BROKER)
        for peer_id in CONTROLLERS[:2]:
            wipe(layout.nodes[peer_id])
        layout.nodes[103].kill()
        for peer_id in CONTROLLERS[:2]:
            layout.nodes[peer_id].launch()
        code, printed = layout.run("cluster", "failover", "on", via=BROKER)
        assert code != 0, printed
        layout.nodes[103].launch()
        code, printed = layout.run("cluster", "failover", "on", via=BROKER)
        assert code != 0, f"one log and two empty ones are no majority: {printed}"
        assert wait_until(
            lambda: "found a group" in layout.nodes[101].log_file.read_text(), WAIT_SECONDS
        ), layout.tails()
