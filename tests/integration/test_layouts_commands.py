"""Operators' commands to a running cluster: what they show, and what misuse is answered with."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from harness.cluster import ClusterProcess, get_page
from harness.waiting import wait_until
from tests.integration.layouts import SMALL, WAIT_SECONDS, run_penstock

pytestmark = pytest.mark.process

FAILED, USAGE = 1, 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path_factory.mktemp("commands"), settings=SMALL) as running:
        yield running


def run(cluster: ClusterProcess, line: str) -> tuple[int, str]:
    return run_penstock(*line.split(), "--config", str(cluster.nodes[2].config))


def do(cluster: ClusterProcess, line: str) -> str:
    code, printed = run(cluster, line)
    assert code == 0, printed
    return printed


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("set describe 77", FAILED, "there is no replica set 77"),
        ("set transfer 77", FAILED, "Replica set 77 does not exist"),
        ("set transfer 1 --to 9", FAILED, "Broker 9 is not a member of replica set 1"),
        ("set elect 2", FAILED, "is alive: ask for a transfer"),
        ("set elect 1 --master 9", FAILED, "Broker 9 is not a member"),
        ("set create 1,x", USAGE, "write broker ids with commas"),
        ("set create 1,9", FAILED, "Broker 9 is not registered"),
        ("set create 1,1", FAILED, "can not have the members [1, 1]"),
        ("set add 1 9", FAILED, "Broker 9 is not registered"),
        ("set add 1 2", FAILED, "broker 2 is a member of set 1 already"),
        ("set remove 1 9", FAILED, "broker 9 is not a member of set 1"),
        ("set policy 1 k-of-n --required 4", FAILED, "the set has 3 members"),
        ("set policy 1 adaptive --required 1 --minimum 2", USAGE, "lower the minimum"),
        ("set policy 1 never", USAGE, "'never' is not one of"),
        ("set policy 77 all", FAILED, "Replica set 77 does not exist"),
        ("set unclean 77 on", FAILED, "Replica set 77 does not exist"),
        ("cluster failover perhaps", USAGE, "is not one of 'on', 'off'"),
        ("cluster remove-broker 9", FAILED, "Broker 9 is not registered"),
        ("cluster remove-broker 3", FAILED, "remove it from them first"),
        ("cluster forget-identity 3", FAILED, "Stop it first"),
        ("node drain 9", FAILED, "Broker 9 is not registered"),
        ("controller add 9 127.0.0.1:1", FAILED, "not connected as a learner"),
        ("controller add 9 nowhere", FAILED, "write host:port"),
        ("controller remove 9", FAILED, "does not vote"),
        ("controller transfer 9", FAILED, "does not vote"),
    ],
)
def test_misuse_is_answered_with_one_line_and_the_right_exit_code(
    cluster: ClusterProcess, line: str, exit_code: int, said: str
) -> None:
    code, printed = run(cluster, line)
    assert (code, printed.count("\n")) == (exit_code, 1), printed
    assert said in printed
    assert "Traceback" not in printed


def test_the_status_says_who_is_master_and_why_and_who_is_in_step(
    cluster: ClusterProcess,
) -> None:
    status = json.loads(do(cluster, "cluster status -o json"))
    assert status["controller"]["active_id"] == status["controller"]["answered_by"]
    assert [one["broker_id"] for one in status["brokers"]] == [1, 2, 3]
    for one in status["sets"][:3]:
        assert one["master"] in one["sync_state_set"]
        assert one["cause"]
        assert one["since_ms"] > 0
        assert {member["broker_id"] for member in one["members"]} == {1, 2, 3}
    table = do(cluster, "cluster status")
    assert "active controller" in table
    assert "WHY" in table


def test_masterships_controllers_sets_and_members_move_by_command(
    cluster: ClusterProcess,
) -> None:
    created = re.search(r"set (\d+) with members 1,2", do(cluster, "set create 1,2"))
    assert created is not None
    made = int(created.group(1))
    do(cluster, f"set add {made} 3")
    assert wait_until(lambda: _described(cluster, made).get("in_sync") == [1, 2, 3], WAIT_SECONDS)
    # A new set is in step from the first moment on, before its members have connected.
    assert wait_until(lambda: _is_followed(cluster, made, 3), WAIT_SECONDS)
    assert f"Broker 3 is master of replica set {made}" in do(cluster, f"set transfer {made} --to 3")
    assert _described(cluster, made)["why"] == "transfer"
    do(cluster, f"set remove {made} 1")
    assert [one["broker"] for one in _described(cluster, made)["members"]] == [2, 3]
    do(cluster, f"set policy {made} adaptive --required 2 --minimum 1")
    assert _described(cluster, made)["policy"] == "adaptive 2, at least 1"
    other = 1 + json.loads(do(cluster, "controller status -o json"))["leader_id"] % 3
    do(cluster, f"controller transfer {other}")
    assert json.loads(do(cluster, "controller status -o json"))["leader_id"] == other


def _is_followed(cluster: ClusterProcess, set_id: int, broker_id: int) -> bool:
    """Whether a master tells how far this member of its set is behind."""
    told = f'penstock_slave_lag_bytes{{broker="{broker_id}",replica_set="{set_id}"}} '.encode()
    return any(told in (get_page(one, "/metrics") or b"") for one in cluster.nodes.values())


def _described(cluster: ClusterProcess, set_id: int) -> dict[str, Any]:
    """Return what is told of a set; nothing while no controller is active."""
    code, printed = run(cluster, f"set describe {set_id} -o json")
    return dict(json.loads(printed)) if code == 0 else {}


def test_a_topic_gets_as_many_copies_as_the_command_line_asks_for(cluster: ClusterProcess) -> None:
    at = f"--bootstrap {cluster.bootstrap} --output json"
    for copies in (1, 2, 3):
        for line in (
            f"topic create of-{copies} --replicas {copies}",
            f"topic describe of-{copies}",
        ):
            code, printed = run_penstock(*line.split(), *at.split())
            assert code == 0, printed
        for one in json.loads(printed)["partitions"]:
            assert len(one["replicas"]) == copies
    code, printed = run_penstock("topic", "create", "of-4", "--replicas", "4", *at.split())
    assert (code, printed.count("\n")) == (FAILED, 1), printed
    assert "4" in printed
    assert "3" in printed
