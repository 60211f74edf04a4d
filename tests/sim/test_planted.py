"""Runs with planted bugs are judged by fewer: they are the same runs."""

import pytest

from simulator.checks.raft.recount import MemberCount
from simulator.run.one_run import RunResult, run_plan
from simulator.run.plan import Plan, Shape
from simulator.trials.operations import DiskTrials
from tests.sim.small_runs import kill

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("quiet")]

PLAN = Plan(seed=1, shape=Shape(partitions=1, producers=1), faults=(kill(200, "master:0"),))


@pytest.fixture
def whole() -> tuple[RunResult, int]:
    """The run as `make sim` has it, and how often it was looked at what Raft and disks do."""
    return counted(PLAN)


def counted(plan: Plan) -> tuple[RunResult, int]:
    looks = 0
    with pytest.MonkeyPatch.context() as patching:
        for owner, name in ((MemberCount, "look"), (DiskTrials, "_operation")):
            real = getattr(owner, name)

            def look(*given, real=real):
                nonlocal looks
                looks += 1
                return real(*given)

            patching.setattr(owner, name, look)
        return run_plan(plan), looks


def test_what_is_left_out_where_a_bug_is_planted_changes_nothing_in_a_run(
    whole: tuple[RunResult, int], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("planted")  # once the other run is over
    result, looks = counted(PLAN)
    assert result.digest == whole[0].digest
    assert (result.steps, result.acked, result.read, result.findings) == (
        whole[0].steps,
        whole[0].acked,
        whole[0].read,
        [],
    )
    assert whole[1] > looks == 0
