"""Shrinking, against plans that fail for a reason that is known."""

from dataclasses import replace

from simulator.run.plan import Fault, FaultKind, Plan, Shape
from simulator.run.planning import make_plan
from simulator.run.shrink import LASTING_MS_MIN, shrink


def plan_with(kinds: list[FaultKind]) -> Plan:
    faults = tuple(
        Fault(kind=kind, at_ms=100 * number, lasting_ms=1_000, targets=("n1",))
        for number, kind in enumerate(kinds)
    )
    return Plan(seed=1, shape=Shape(producers=2, partitions=3), faults=faults)


def kinds_of(plan: Plan) -> list[FaultKind]:
    return [fault.kind for fault in plan.faults]


NOISE = [FaultKind.PAUSE] * 9


def test_only_the_fault_that_matters_is_left() -> None:
    plan = plan_with([*NOISE, FaultKind.KILL, *NOISE])
    shortest = shrink(plan, lambda one: FaultKind.KILL in kinds_of(one))
    assert kinds_of(shortest) == [FaultKind.KILL]
    assert shortest.faults[0].lasting_ms == LASTING_MS_MIN * 5 // 2  # a quarter, then a half
    assert (shortest.shape.producers, shortest.shape.partitions) == (1, 1)


def test_two_faults_that_only_fail_together_are_both_left() -> None:
    plan = plan_with([FaultKind.KILL, *NOISE, FaultKind.LOSS, *NOISE])
    both = {FaultKind.KILL, FaultKind.LOSS}
    shortest = shrink(plan, lambda one: both <= set(kinds_of(one)))
    assert kinds_of(shortest) == [FaultKind.KILL, FaultKind.LOSS]


def test_what_the_failure_needs_of_the_cluster_is_left_as_it_is() -> None:
    plan = replace(make_plan(3), shape=Shape(is_apart=True, producers=2))
    shortest = shrink(plan, lambda one: one.shape.is_apart)
    assert shortest.faults == ()
    assert shortest.shape.is_apart
    assert shortest.shape.producers == 1


def test_no_more_runs_are_made_than_allowed() -> None:
    runs = 0

    def fails(plan: Plan) -> bool:
        nonlocal runs
        runs += 1
        return bool(plan.faults)

    shrink(plan_with([FaultKind.KILL, *NOISE, FaultKind.LOSS]), fails, runs_max=5)
    assert runs == 5


def test_a_plan_that_nothing_can_be_taken_from_is_returned_as_it_is() -> None:
    plan = plan_with([FaultKind.KILL])
    assert shrink(plan, lambda one: one == plan) == plan
