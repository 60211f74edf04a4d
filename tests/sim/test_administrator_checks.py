"""Planted bugs of tasks, mixed groups and what administrators do are found by those who judge."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator.calls.shares import ShareChangeKind, SharePlace
from penstock.groups.assigned.currents import Current
from penstock.groups.migration.claims import Claims
from penstock.groups.streams import assignor, draft, holders
from penstock.kafka.handlers.cluster.describe_topic_partitions import _Page
from penstock.kafka.handlers.transactions import write_txn_markers
from penstock.kafka.shares import batches
from penstock.kafka.shares.masters import CalledShareMasters
from penstock.protocol.error_codes import ErrorCode
from simulator.run.one_run import run_plan
from simulator.run.plan import Fault, Plan, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MonkeyPatch = pytest.MonkeyPatch


def shaped(partitions: int = 1, **wanted: Any) -> Shape:
    """A small cluster with these clients."""
    return Shape(is_apart=True, partitions=partitions, producers=1, records_per_second=20, **wanted)


CALM = (kill(8_000, "c1"),)
"""Nothing happens to masters."""
MASTERS_DIE = tuple(kill(1_000 + 1_200 * at, f"master:{at % 3}") for at in range(6))
STREAMS = shaped(3, streams=3)
MIXED = shaped(3, groups=1, group_members=3, has_mixed_groups=True)
SHARED = shaped(sharers=2)
WRITTEN = shaped(transactors=1)
INSPECTED = shaped(3, is_inspected=True)
TOGETHER = shaped(
    2,
    streams=2,
    groups=1,
    has_mixed_groups=True,
    sharers=1,
    transactors=1,
    is_inspected=True,
)


def found(shape: Shape, faults: tuple[Fault, ...] = CALM, seeds: int = 4) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(shape, faults, seeds)


def test_all_promises_are_kept_while_masters_die_and_equal_seeds_give_equal_traces() -> None:
    plan = Plan(seed=5, shape=TOGETHER, faults=MASTERS_DIE)
    one, other = run_plan(plan), run_plan(plan)
    assert one.findings == []
    assert one.digest == other.digest


def test_a_task_that_is_yet_to_be_given_up_and_counts_as_free_is_found(
    planted: MonkeyPatch,
) -> None:
    def only_assigned(current: Current | None) -> Iterator[tuple[bytes, frozenset[int]]]:
        yield from () if current is None else current.assigned.items()

    planted.setattr(holders, "held", only_assigned)
    planted.setattr(draft, "held", only_assigned)
    assert any("works on it" in one for one in found(STREAMS))


def test_tasks_without_copies_are_found(planted: MonkeyPatch) -> None:
    planted.setattr(assignor, "_give_standby", lambda *_: iter(()))
    assert any("nobody keeps a copy" in one for one in found(STREAMS))


def test_a_group_that_forgets_who_reads_what_when_it_is_upgraded_is_found(
    planted: MonkeyPatch,
) -> None:
    planted.setattr(Claims, "claim", lambda *_: None)
    assert any("committed after" in one for one in found(MIXED))


def test_aborted_records_that_are_handed_out_are_found(planted: MonkeyPatch) -> None:
    planted.setattr(batches._Aborted, "has", lambda *_: False)
    assert any("was aborted" in one for one in found(SHARED))


def test_shares_that_stay_where_they_are_are_found(planted: MonkeyPatch) -> None:
    right = CalledShareMasters.change

    async def unmoved(
        self: Any, group: str, kind: ShareChangeKind, changes: Any, epoch: int
    ) -> Any:
        if kind is ShareChangeKind.RESET:
            return {SharePlace(one.topic_id, one.partition): ErrorCode.NONE for one in changes}
        return await right(self, group, kind, changes, CoordinatorEpoch(epoch))

    planted.setattr(CalledShareMasters, "change", unmoved)
    assert any("shares of kept-" in one for one in found(SHARED))


def test_a_marker_that_is_answered_and_not_written_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(write_txn_markers, "_begin", lambda *_: ErrorCode.NONE)
    assert any("open after its marker" in one for one in found(WRITTEN))


def test_pages_that_leave_a_partition_out_are_found(planted: MonkeyPatch) -> None:
    right = _Page.add

    def skipping(self: _Page, name: str, start: int) -> bool:
        has_more = right(self, name, start)
        if self.next_cursor is not None:
            self.next_cursor["partition_index"] += 1  # type: ignore[operator]
        return has_more

    planted.setattr(_Page, "add", skipping)
    assert any("pages of history" in one for one in found(INSPECTED))
