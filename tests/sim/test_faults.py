"""Each fault of a plan by itself: it hits a whole cluster, and the cluster gets over it."""

import pytest

from simulator.run.one_run import run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MASTER, SLAVE = ("master:0",), ("slave:0",)
SHAPE = Shape(partitions=1, producers=1, retention_bytes=40_000, is_churning=True)


@pytest.mark.parametrize(
    ("kind", "targets", "amount"),
    [
        (FaultKind.STOP, MASTER, 0),
        (FaultKind.SUSPEND, SLAVE, 0),
        (FaultKind.CLOCK_STEP, MASTER, 3_600_000),
        (FaultKind.DISK_LOST, MASTER, 0),
        (FaultKind.DISK_LOST, SLAVE, 0),
        (FaultKind.WRITE_ERROR, MASTER, 3),
        (FaultKind.READ_ERROR, SLAVE, 0),
        (FaultKind.FULL_AT, SLAVE, 4),
        (FaultKind.POLICY, (), 0),
        (FaultKind.REPLACE, (), 0),
        (FaultKind.DRAIN, (), 0),
        (FaultKind.STATUS, (), 0),
        (FaultKind.SETTING, (), 0),
        (FaultKind.SETTING, (), 1),
        (FaultKind.SETTING, (), 2),
        (FaultKind.MISUSE, (), 0),
        (FaultKind.SPREAD, (), 0),
        (FaultKind.TRIAL, (), 0),
        (FaultKind.LEVEL, (), 0),
    ],
)
def test_a_cluster_gets_over_it(kind: FaultKind, targets: tuple[str, ...], amount: int) -> None:
    fault = Fault(kind=kind, at_ms=100, lasting_ms=600, targets=targets, amount=amount)
    result = run_plan(Plan(seed=5, shape=SHAPE, faults=(fault,)))
    assert result.faults == {kind: 1}
    assert not result.findings, result.findings[:3]
    assert result.acked > 0


def test_the_disk_of_the_only_member_in_step_is_not_taken_away() -> None:
    down = Fault(kind=FaultKind.KILL, at_ms=0, lasting_ms=3_000, targets=("slaves:0",))
    lost = Fault(kind=FaultKind.DISK_LOST, at_ms=2_500, lasting_ms=100, targets=MASTER)
    shape = Shape(is_apart=True, partitions=1, producers=1)
    result = run_plan(Plan(seed=1, shape=shape, faults=(down, lost)))
    assert (result.missed, result.findings) == (1, [])


def test_two_changes_of_a_policy_that_overlap_have_one_policy_in_the_end() -> None:
    # Found by seed 5074: what the second took for the policy before was that of the first.
    changes = tuple(
        Fault(kind=FaultKind.POLICY, at_ms=at_ms, lasting_ms=800, targets=())
        for at_ms in (100, 500)
    )
    result = run_plan(Plan(seed=5, shape=SHAPE, faults=changes))
    assert result.faults == {FaultKind.POLICY: 2}
    assert not result.findings, result.findings[:3]
