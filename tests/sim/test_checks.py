"""Whole runs in which something is wrong on purpose: each check that looks at a run tells it."""

import asyncio
from dataclasses import replace

import pytest

from penstock.client.fetch import FetchedPartition
from penstock.protocol.error_codes import ErrorCode
from penstock.sim.admin_history import AdminHistory
from penstock.sim.clients import Clients
from penstock.sim.history import Anomaly, Deletion, Outcome
from penstock.sim.plan import Plan, Shape
from penstock.sim.readers import Follower, Reader
from penstock.sim.run import Run, run_plan

pytestmark = [
    pytest.mark.timeout(120),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)


async def a_second(_: Run) -> None:
    await asyncio.sleep(1.0)


def test_a_reader_that_polls_and_gets_nothing_while_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = Reader._note

    def note_little(self: Reader, found: FetchedPartition, begun_ns: int) -> None:
        is_deaf = isinstance(self, Follower) and self.places[found.partition].offset > 0
        note(self, found._replace(data=memoryview(b"")) if is_deaf else found, begun_ns)

    monkeypatch.setattr(Reader, "_note", note_little)
    findings = run_plan(PLAN, a_second).findings
    assert findings[0].startswith("not read in time: follower-0 stands at")
    assert any(one.startswith("realtime-lag in 0: follower-0") for one in findings)


def test_topics_that_are_answered_for_in_no_possible_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = AdminHistory.changed

    def never_there(self: AdminHistory, number: int, error_code: int) -> None:
        del error_code
        told(self, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    monkeypatch.setattr(AdminHistory, "changed", never_there)
    plan = replace(PLAN, shape=replace(PLAN.shape, is_churning=True))
    (finding,) = run_plan(plan, a_second).findings
    assert finding.startswith("topics: ")


def test_writes_of_a_replaced_epoch_are_tried_and_would_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[Run] = []

    async def note(run: Run) -> None:
        runs.append(run)
        await a_second(run)

    assert run_plan(PLAN, note).findings == []
    (zombie,) = [one for one in runs[0].clients.lanes if one.name == "zombie"]
    assert getattr(zombie, "refused") > 0  # noqa: B009  lanes of other kinds have none
    late = [send for send in zombie.events() if send.outcome is Outcome.UNKNOWN][-1]
    last = max(poll.end_offset or 0 for poll in runs[0].clients.world.polls)

    def taken(_: Clients) -> list[object]:
        """The refused batch, as if it had been written after all."""
        return [*zombie.events(), late._replace(outcome=Outcome.ACKED, offset=last, end_ns=1)]

    monkeypatch.setattr(Clients, "sends", taken)
    report = runs[0].clients.judge(is_complete=False)
    assert Anomaly.ZOMBIE_WRITE in {one.anomaly for one in report.findings}


def test_deleted_records_that_are_there_again() -> None:
    runs: list[Run] = []

    async def note(run: Run) -> None:
        runs.append(run)
        await a_second(run)

    shape = replace(PLAN.shape, is_churning=True, retention_bytes=40_000)
    assert run_plan(replace(PLAN, shape=shape), note).findings == []
    churn = runs[0].clients.churn
    assert churn is not None
    churn.deletions.append(Deletion(0, 1 << 40, 1))
    report = runs[0].clients.judge(is_complete=True)
    assert {one.anomaly for one in report.findings} == {Anomaly.START_REGRESSION}
