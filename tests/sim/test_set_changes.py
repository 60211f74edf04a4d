"""What an entry may make of a replica set, and that each rule can be broken."""

from dataclasses import replace
from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    ReplicaId,
    ReplicaSetId,
    SyncStateSetEpoch,
)
from penstock.controller.metadata.image import NO_MASTER, BrokerImage, ReplicaSetImage
from simulator.checks.set_changes import SetChanges, broken_rules

LED = ReplicaSetImage(
    replica_set_id=ReplicaSetId(1),
    master=BrokerId(1),
    leader_epoch=LeaderEpoch(4),
    replicas=as_brokers(1, 2, 3),
    sync_state_set=as_brokers(1, 2),
    sync_state_set_epoch=SyncStateSetEpoch(7),
    replica_ids={
        BrokerId(1): ReplicaId(11),
        BrokerId(2): ReplicaId(12),
        BrokerId(3): ReplicaId(13),
    },
)
PROCESS = ("n1", 1)


def broker(broker_id: int, *, is_fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id=BrokerId(broker_id),
        host="h",
        port=1,
        rack=None,
        broker_epoch=BrokerEpoch(1),
        is_fenced=is_fenced,
    )


BROKERS = {one: broker(one) for one in as_brokers(1, 2, 3)}
ELECTED: dict[str, Any] = {"master": 2, "leader_epoch": 5}
GROWN: dict[str, Any] = {"sync_state_set": (1, 2, 3), "sync_state_set_epoch": 8}


@pytest.mark.parametrize(
    "change",
    [
        ELECTED,
        GROWN,
        {"master": NO_MASTER},
        {"replica_ids": {1: 11, 2: 12, 3: 13, 4: 14}},
        {"sync_state_set": (1,), "sync_state_set_epoch": 8},
        {"replica_ids": {1: 11, 2: 12, 3: 14}, "sync_state_set_epoch": 8},
    ],
)
def test_what_may_happen_breaks_no_rule(change: dict[str, Any]) -> None:
    assert list(broken_rules(LED, replace(LED, **change), BROKERS)) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({**ELECTED, "leader_epoch": 6}, "goes from 4 to 6"),
        ({"leader_epoch": 3}, "goes from 4 to 3"),
        ({"master": 2}, "epoch 4 has another master"),
        ({**ELECTED, "master": 3}, "was no candidate"),
        ({**ELECTED, "master": 3, "unclean_epoch": 5}, "nobody has allowed it"),
        ({"sync_state_set_epoch": 6}, "falls to 6"),
        ({**GROWN, "sync_state_set_epoch": 7}, "has the same epoch"),
        ({"replica_ids": {1: 11, 2: 12, 3: 14}}, "has the same epoch"),
        ({**GROWN, "replica_ids": {1: 11, 2: 12}}, "has no log"),
        ({**GROWN, "replicas": (1, 2)}, "are members"),
        (
            {"replica_ids": {1: 11, 2: 14, 3: 13}, "sync_state_set_epoch": 8},
            "another log and stays in step",
        ),
    ],
)
def test_what_may_not_happen_is_told(change: dict[str, Any], rule: str) -> None:
    told = list(broken_rules(LED, replace(LED, **change), BROKERS))
    assert any(rule in one for one in told), told


@pytest.mark.parametrize("change", [ELECTED, {**GROWN, "sync_state_set": (1, 2, 3)}])
def test_nobody_who_is_dead_is_elected_or_gets_in_step(change: dict[str, Any]) -> None:
    dead = {**BROKERS, **{one: broker(one, is_fenced=True) for one in as_brokers(2, 3)}}
    told = list(broken_rules(LED, replace(LED, **change), dead))
    assert any("is not alive" in one for one in told), told


def test_an_unclean_election_that_was_allowed_breaks_no_rule() -> None:
    allowed = replace(LED, is_unclean_allowed=True)
    after = replace(
        allowed, master=BrokerId(3), leader_epoch=LeaderEpoch(5), unclean_epoch=LeaderEpoch(5)
    )
    assert list(broken_rules(allowed, after, BROKERS)) == []


def test_a_process_that_was_given_a_snapshot_is_not_judged_by_what_it_passed_over() -> None:
    changes, wrong = SetChanges(), replace(LED, master=BrokerId(3), leader_epoch=LeaderEpoch(5))
    grown = replace(
        LED, sync_state_set=as_brokers(1, 2, 3), sync_state_set_epoch=SyncStateSetEpoch(8)
    )
    for process in (PROCESS, ("n2", 1)):
        assert list(changes.changed(process, 10, LED, BROKERS)) == []
    assert list(changes.changed(PROCESS, 12, grown, BROKERS)) == []
    elected = replace(grown, master=BrokerId(3), leader_epoch=LeaderEpoch(5))
    assert list(changes.changed(PROCESS, 14, elected, BROKERS)) == []
    assert list(changes.changed(("n2", 1), 14, elected, BROKERS)) == []
    assert list(changes.changed(("n3", 1), 14, wrong, BROKERS)) == [], "the first that it says"


def test_the_next_change_of_a_set_is_judged_in_each_process() -> None:
    changes, wrong = SetChanges(), replace(LED, master=BrokerId(3), leader_epoch=LeaderEpoch(5))
    for process in (PROCESS, ("n2", 1)):
        assert list(changes.changed(process, 10, LED, BROKERS)) == []
        (told,) = changes.changed(process, 14, wrong, BROKERS)
        assert "was no candidate" in told
