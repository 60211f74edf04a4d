"""Planted bugs of shares are found by those who take records, settle them and judge."""

from typing import Any

import pytest

from penstock.shares import answers, coordinator, shard
from penstock.shares.cells import DEAD
from penstock.shares.coordinator import ShareCoordinator
from penstock.shares.messages import Answer
from penstock.shares.records import UPDATE, decode_update
from penstock.shares.state import Settled
from simulator.run.one_run import run_plan
from simulator.run.plan import Fault, Plan, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch
SHARED = Shape(is_apart=True, partitions=1, producers=1, records_per_second=20, sharers=3)


CALM = (kill(3_000, "c1"),)
"""Nothing happens to masters."""
MASTERS_DIE = tuple(kill(1_000 + 1_200 * at, f"master:{at % 3}") for at in range(6))


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 3) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHARED, faults, seeds)


def test_records_are_settled_for_good_while_masters_die() -> None:
    assert found(MASTERS_DIE) == []


def test_equal_seeds_give_equal_traces() -> None:
    plan = Plan(seed=5, shape=SHARED, faults=CALM)
    one, other = run_plan(plan), run_plan(plan)
    assert one.digest
    assert one.digest == other.digest


def test_records_that_are_accepted_and_come_again_are_found(monkeypatch: MonkeyPatch) -> None:
    right = answers._do

    def released(ledger: Any, what: answers.Say, *rest: Any) -> int:
        what = answers.Say.RELEASE if what is answers.Say.ACCEPT else what
        return right(ledger, what, *rest)

    monkeypatch.setattr(answers, "_do", released)
    assert any("comes again" in one for one in found())


def test_what_was_settled_and_a_new_master_does_not_know_is_found(
    monkeypatch: MonkeyPatch,
) -> None:
    right = shard._load

    def forgetful(share: Any, kind: int, number: int, value: bytes) -> None:
        if kind == UPDATE and isinstance(decode_update(value)[1], Settled):
            return
        right(share, kind, number, value)

    monkeypatch.setattr(shard, "_load", forgetful)
    assert found() == []
    assert any("comes again" in one for one in found(MASTERS_DIE, seeds=6))


def test_answers_before_anything_is_written_are_found(monkeypatch: MonkeyPatch) -> None:
    def at_once(self: Any, shares: Any, ledger: Any, answer: Answer, told: Any) -> None:
        del self, shares, ledger
        told(answer)

    monkeypatch.setattr(ShareCoordinator, "_settle", at_once)
    monkeypatch.setattr(ShareCoordinator, "_touched", lambda *_: None)
    assert any("comes again" in one for one in found(MASTERS_DIE, seeds=6))


def test_locks_that_do_not_end_are_found(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "expire", lambda *_: 0)
    assert any("not settled in time" in one for one in found())


def test_released_records_that_are_lost_are_found(monkeypatch: MonkeyPatch) -> None:
    def lost(ledger: Any, runs: Any, *_: Any) -> None:
        ledger.write(Settled(DEAD, runs))

    monkeypatch.setattr(answers, "hand_back", lost)
    assert any("not settled in time" in one for one in found())
