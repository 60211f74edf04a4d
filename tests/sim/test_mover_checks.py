"""Planted bugs of positions in transactions are found by those who move records and judge them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.coordinators import rewrite
from penstock.coordinator.confirmed_map import ConfirmedMap
from penstock.coordinator.pending import Pending
from penstock.coordinator.pending_map import PendingMap
from penstock.groups import journal, loading, table
from penstock.groups.journal import GroupWriter
from penstock.kafka.transactions.answering import TransactionAnswers
from simulator.clients import mover
from simulator.clients.movers import judge_moved
from simulator.run.one_run import run_plan
from simulator.run.plan import REWRITE_BYTES, Fault, Plan, Shape
from tests.sim.small_runs import kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MonkeyPatch = pytest.MonkeyPatch


def moved(rewrite_bytes: int = REWRITE_BYTES) -> Shape:
    """One mover of each version."""
    return Shape(
        is_apart=True,
        partitions=1,
        producers=1,
        records_per_second=20,
        movers=2,
        group_rewrite_bytes=rewrite_bytes,
    )


MARKER_SECONDS = 0.1
"""Of virtual time, in which a transaction is decided and its positions are not known yet."""
CALM = (kill(3_000, "c1"),)
"""Nothing happens to coordinators."""
MASTERS_DIE = tuple(kill(1_000 + 1_200 * at, f"master:{at % 3}") for at in range(6))


def found(
    faults: tuple[Fault, ...] = CALM,
    seeds: int = 3,
    rewrite_bytes: int = REWRITE_BYTES,
    wanted: Callable[[list[str]], bool] = bool,
) -> list[str]:
    """Run under a few seeds; returns what the first one says that breaks in the wanted way."""
    for seed in range(seeds):
        result = run_plan(Plan(seed=seed, shape=moved(rewrite_bytes), faults=faults))
        if wanted(result.findings):
            return result.findings
    return []


def are_lost(told: list[str]) -> bool:
    """Whether positions were lost: what is before them was moved again, or they went back."""
    return any(" times" in one or "committed-offset-regression" in one for one in told)


def test_records_are_moved_once_while_masters_die_and_positions_are_rewritten() -> None:
    assert found(MASTERS_DIE, rewrite_bytes=500) == []


def test_equal_seeds_give_equal_traces() -> None:
    plan = Plan(seed=5, shape=moved(500), faults=CALM)
    one, other = run_plan(plan), run_plan(plan)
    assert one.digest
    assert one.digest == other.digest


def end_all(monkeypatch: MonkeyPatch, *, as_committed: bool) -> None:
    """Let every marker do the same to positions, whatever it says."""
    right = GroupWriter.ending

    def same(self: GroupWriter, groups: Any, writer: Any, *, is_commit: bool) -> Any:
        del is_commit
        return right(self, groups, writer, is_commit=as_committed)

    monkeypatch.setattr(GroupWriter, "ending", same)


def test_positions_of_an_aborted_transaction_that_count_are_found(planted: MonkeyPatch) -> None:
    end_all(planted, as_committed=True)
    assert any("was not moved, and the position is" in one for one in found())


def test_positions_that_are_lost_at_the_commit_are_found(planted: MonkeyPatch) -> None:
    end_all(planted, as_committed=False)
    assert are_lost(found())


def test_positions_that_count_before_their_marker_are_found(planted: MonkeyPatch) -> None:
    def at_once(self: PendingMap[Any, Any], _producer_id: int, changes: Any) -> int:
        return self.begin(changes)

    planted.setattr(PendingMap, "begin_pending", at_once)
    assert any("was not moved, and the position is" in one for one in found())


def test_positions_that_are_told_while_their_transaction_is_decided_are_found(
    monkeypatch: MonkeyPatch,
) -> None:
    right = TransactionAnswers.write_markers

    async def late(self: TransactionAnswers, question: Any) -> Any:
        await asyncio.sleep(MARKER_SECONDS)
        return await right(self, question)

    monkeypatch.setattr(TransactionAnswers, "write_markers", late)
    assert found(seeds=1) == []
    monkeypatch.setattr(PendingMap, "is_in_flight", ConfirmedMap.is_in_flight)
    assert any("times" in one for one in found())


def test_positions_that_stay_unstable_are_found(planted: MonkeyPatch) -> None:
    planted.setattr(table.Writers, "end", lambda *_: [])
    assert any("not stable" in one for one in found())


def test_positions_whose_log_a_rewrite_cuts_while_they_wait_are_found(
    planted: MonkeyPatch,
) -> None:
    # Between the positions and the commit there must be a rewrite, and a new coordinator.
    planted.setattr(mover, "SLOW_SHARE", 0.4)
    planted.setattr(rewrite, "_first_undecided", lambda hosted: hosted.log.log_end_offset)
    # A look at the coordinator's memory may find it first, in a run that ends there.
    assert found(MASTERS_DIE, seeds=6, rewrite_bytes=200, wanted=are_lost)


def test_positions_that_a_rewrite_overrules_while_they_wait_are_found(
    planted: MonkeyPatch,
) -> None:
    # As above: between the positions and the commit there must be a rewrite.
    planted.setattr(mover, "SLOW_SHARE", 0.4)
    planted.setattr(journal, "as_copy", lambda record: record)
    assert found(MASTERS_DIE, seeds=6, rewrite_bytes=200, wanted=are_lost)


def test_positions_that_wait_and_are_lost_by_a_new_coordinator_are_found(
    planted: MonkeyPatch,
) -> None:
    planted.setattr(loading.GroupLoader, "_restore_pending", lambda *_: iter(()))
    assert are_lost(found(MASTERS_DIE, seeds=6))


def test_positions_that_overrule_a_later_plain_commit_are_found(planted: MonkeyPatch) -> None:
    planted.setattr(Pending, "drop", lambda *_: [])
    assert any("committed-offset-regression" in one for one in found())


@pytest.mark.parametrize(
    ("offsets", "end", "said"),
    [
        ([0, 1, 2], 3, ""),
        ([], 0, ""),
        ([0, 1, 2], 2, "2 was moved, and the position is 2"),
        ([0, 2], 3, "1 was not moved, and the position is 3"),
        ([0, 1, 0, 1], 2, "0 was moved 2 times"),
        ([1, 0], 2, "what was moved is out of order"),
        ([-1, 0], 1, "-1 was moved, and the position is 1"),
    ],
)
def test_what_was_moved_is_judged_by_the_committed_position(
    offsets: list[int], end: int, said: str
) -> None:
    assert judge_moved(offsets, end)[:1] == ([said] if said else [])
