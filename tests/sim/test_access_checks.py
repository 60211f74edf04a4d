"""Planted bugs of access are found by those who judge administrators and their users."""

from typing import Any

import pytest

from penstock.access.authoriser import AclAuthoriser
from penstock.access.scram import ScramServer
from penstock.controller.metadata import snapshot, snapshot_config
from penstock.kafka.gate import _PermittedTopics
from simulator.run.one_run import RunResult, run_plan
from simulator.run.plan import Fault, Plan, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(
    is_apart=True,
    partitions=1,
    producers=1,
    records_per_second=20,
    snapshot_after_bytes=2_048,
    administrators=2,
)


CALM = (kill(2_500, "c1"),)
BROKERS_DIE = tuple(kill(1_000 + 1_500 * at, f"b{at % 3 + 1}") for at in range(4))


def run(seed: int, faults: tuple[Fault, ...] = CALM) -> RunResult:
    return run_plan(Plan(seed=seed, shape=SHAPE, faults=faults))


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 4) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def test_administrators_and_users_find_nothing_wrong_while_brokers_die() -> None:
    assert found(BROKERS_DIE, seeds=2) == []


def test_decisions_that_outlive_a_change_are_found(planted: MonkeyPatch) -> None:
    change: Any = AclAuthoriser.change

    def changed(self: Any, added: object, removed: object) -> None:
        young, old = self._young, self._old
        change(self, added, removed)
        self._young, self._old = young, old

    planted.setattr(AclAuthoriser, "change", changed)
    assert "of User:access-" in found()[0]


def test_a_fetch_that_asks_nobody_is_found(planted: MonkeyPatch) -> None:
    def get(self: Any, key: bytes) -> object:
        return self._context.broker.partitions.by_name.get(key)

    planted.setattr(_PermittedTopics, "get", get)
    assert any("READ TOPIC" in one or "WRITE TOPIC" in one for one in found())


def test_a_proof_that_nobody_checks_is_found(planted: MonkeyPatch) -> None:
    def trusts(self: Any, token: bytes) -> bytes:
        del self, token
        return b"v="

    planted.setattr(ScramServer, "final", trusts)
    assert any("is let in" in one for one in found())


def test_a_snapshot_without_rules_is_found_once_brokers_have_started_from_it(
    planted: MonkeyPatch,
) -> None:
    records = snapshot_config.configuration_records
    planted.setattr(
        snapshot,
        "configuration_records",
        lambda image: [one for one in records(image) if type(one).__name__ != "AclAdded"],
    )
    assert found(BROKERS_DIE)
