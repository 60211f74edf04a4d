"""The tier of simulated clusters: runs that keep its promises, and planted bugs that are found."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.runtime.tier import copying
from penstock.tier.copies import uploads
from penstock.tier.copies.transfer import put_object
from penstock.tier.metadata.manifest import Run as TierRun
from penstock.tier.port import ObjectStore
from penstock.tier.read import merge
from simulator.kernel.distant_store import Mood
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet", "only_what_happens"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHAPE = Shape(
    replication_factor=2,
    partitions=1,
    producers=1,
    records_per_second=300,
    level0_bytes=0,
    is_tiered=True,
    is_churning=True,
)
PLAN = Plan(seed=3, shape=SHAPE)
Story = Callable[[Run], Coroutine[Any, Any, None]]


def copies(count: int, *, slow: bool = False) -> Story:
    """Wait until so many commits were answered."""

    async def schedule(run: Run) -> None:
        if slow:
            run.cluster.store.moods.update({host: [Mood.SLOW] for host in run.cluster.servers})
        await run.until(lambda: run.tier.commit_count >= count or bool(run.invariants.findings), 30)

    return schedule


def findings(schedule: Story) -> list[str]:
    return run_plan(PLAN, schedule).findings


def is_any(found: Sequence[str], text: str) -> bool:
    return any(text in one for one in found)


def test_a_cluster_with_a_store_copies_and_keeps_every_promise() -> None:
    seen: list[Run] = []

    async def schedule(run: Run) -> None:
        await copies(4)(run)
        seen.append(run)

    assert findings(schedule) == []
    assert sum(map(len, seen[0].tier.contents.batches.values())) > 100
    assert seen[0].cluster.store.bucket.objects


def test_a_commit_before_its_upload_is_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    async def begun(store: ObjectStore, capabilities: Any, name: Any, file: Any) -> int:
        kept.append(asyncio.create_task(put_object(store, capabilities, name, file)))
        return 0

    monkeypatch.setattr(copying, "put_object", begun)
    assert is_any(findings(copies(1, slow=True)), "and is not there")


def test_runs_that_are_committed_with_a_wrong_range_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transfer = uploads._Transfer
    real = transfer.runs

    def shorter(self: Any) -> list[TierRun]:
        return [run._replace(end_offset=run.end_offset - 1) for run in real(self)]

    monkeypatch.setattr(transfer, "runs", shorter)
    assert is_any(findings(copies(3)), "and was committed to")


def merges(count: int) -> Story:
    """Wait until so many runs were replaced."""

    async def schedule(run: Run) -> None:
        await run.until(lambda: run.tier.merge_count >= count or bool(run.invariants.findings), 30)

    return schedule


MERGED = replace(PLAN, shape=replace(SHAPE, merge_bytes=1 << 20))


def test_small_objects_are_merged_and_every_promise_is_kept() -> None:
    assert run_plan(MERGED, merges(1)).findings == []


def test_a_merge_that_forgets_what_is_decided_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "decided_by", lambda run, notes: 0)
    assert is_any(run_plan(MERGED, merges(1)).findings, "tells of transactions")
