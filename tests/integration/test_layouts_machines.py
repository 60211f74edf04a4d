"""Four nodes on two machines: copies stand apart, and what does not is said."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.workload import create_topic
from tests.integration.layouts import SMALL, Layout

pytestmark = pytest.mark.process

MACHINES = {1: "left", 2: "left", 3: "right", 4: "right"}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    with Layout(tmp_path_factory.mktemp("machines"), SMALL) as made:
        for pair in ((1, 2), (3, 4)):
            for peer_id in pair:
                settings: dict[str, dict[str, object]] = {"node": {"machine": MACHINES[peer_id]}}
                made.add(peer_id, voters=(1,), replicas=2, settings=settings).launch()
            for peer_id in pair:
                made.nodes[peer_id].wait_ready()
            made.wait(pair[0], bool, via=pair[0])  # before others come, which sets could have
        create_topic(made.bootstrap, "apart", 4)
        yield made


def machines_of(layout: Layout, set_id: int) -> list[str]:
    members = layout.replica_set(set_id, via=1)["members"]
    return sorted(MACHINES[member["broker_id"]] for member in members)


def test_members_of_every_set_run_on_different_machines(layout: Layout) -> None:
    status = layout.status(via=1)
    assert {one["broker_id"]: one["machine"] for one in status["brokers"]} == MACHINES
    # The first sets are made when as many brokers are there as a set has members.
    later = [one["replica_set_id"] for one in status["sets"] if one["preferred_master"] > 2]
    assert later
    for set_id in later:
        assert machines_of(layout, set_id) == ["left", "right"]


def test_a_set_on_one_machine_is_made_when_asked_for_and_told_of(layout: Layout) -> None:
    made = layout.do("set", "create", "1,2", via=1)
    set_id = int(made.split()[1])
    warning = f"warning: set {set_id}: brokers 1, 2 are on machine left"
    assert warning in made
    assert warning in layout.do("cluster", "status", via=1)
    assert "MACHINE" in layout.do("cluster", "status", via=1)
    added = layout.do("set", "add", str(set_id), via=1)
    assert added.startswith(("broker 3 ", "broker 4 "))


def test_masterships_on_one_broker_are_spread_by_the_plan(layout: Layout) -> None:
    sets = [one for one in layout.status(via=1)["sets"] if one["partition_count"]]
    target = max(MACHINES, key=lambda broker_id: sum(map(_is_member(broker_id), sets)))
    for replica_set in filter(_is_member(target), sets):
        if replica_set["master"] != target:
            layout.do(
                "set", "transfer", str(replica_set["replica_set_id"]), "--to", str(target), via=1
            )
            layout.wait_for_master(replica_set["replica_set_id"], target, via=1)
    shown = layout.do("cluster", "spread", "--dry-run", via=1)
    code, refused = layout.run("cluster", "spread", via=1)
    assert "TARGET" in shown
    assert (code, "say --yes" in refused) == (2, True)
    assert "leads" in layout.do("cluster", "spread", "--yes", via=1)
    again = layout.do("cluster", "spread", "--dry-run", via=1)
    assert "no transfer" in again


def _is_member(broker_id: int) -> Callable[[dict[str, Any]], bool]:
    return lambda one: broker_id in [member["broker_id"] for member in one["members"]]
