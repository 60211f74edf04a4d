"""Links that change what they carry: it is noticed, and nothing of it gets into a log."""

import asyncio

import pytest

from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape
from tests.sim.test_talk import members

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)
GARBLE = Fault(kind=FaultKind.GARBLE, at_ms=100, lasting_ms=1_500, targets=("*",))


def test_messages_are_changed_and_every_promise_is_kept() -> None:
    changed: list[int] = []

    async def note(run: Run) -> None:
        changed.append(run.cluster.garbled.changed)

    result = run_plan(PLAN.with_faults((GARBLE,)), note)
    assert result.findings == []
    assert result.faults == {"garble": 1}
    assert changed[0] > 10


def test_links_carry_everything_as_it_was_said_when_the_fault_is_over() -> None:
    changed: list[int] = []

    async def note(run: Run) -> None:
        for _ in range(2):
            changed.append(run.cluster.garbled.changed)
            await asyncio.sleep(0.5)
        assert members(run)

    assert run_plan(PLAN.with_faults((GARBLE,)), note).findings == []
    assert changed[0] == changed[1] > 0
