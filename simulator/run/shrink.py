"""Shrinks a failing plan: fewer faults, shorter ones, a smaller cluster.

    halves, quarters, ... single faults left out ─► times halved ─► shape made simpler

Every candidate is run, so the number of runs is bounded, and the best plan by then is the result.
Any finding counts, also one of another kind.

Source: delta debugging (Zeller and Hildebrandt 2002), over the plan rather than over every draw.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from simulator.run.plan import Fault, Plan

RUNS_MAX = 60
LASTING_MS_MIN = 50

Fails = Callable[[Plan], bool]


def shrink(plan: Plan, fails: Fails, *, runs_max: int = RUNS_MAX) -> Plan:
    """Return the smallest plan found that `fails`, which `plan` does; `fails` runs a plan."""
    budget = _Budget(fails, runs_max)
    for step in (_drop_faults, _simplify, _shorten, _drop_faults):
        plan = step(plan, budget)
    return plan


class _Budget:
    """Counts runs; out of budget nothing fails any more."""

    def __init__(self, fails: Fails, runs_max: int) -> None:
        self._fails = fails
        self._left = runs_max

    def fails(self, plan: Plan) -> bool:
        """Run the plan if that may still be done."""
        if self._left <= 0:
            return False
        self._left -= 1
        return self._fails(plan)


def _drop_faults(plan: Plan, budget: _Budget) -> Plan:
    size = max(1, len(plan.faults) // 2)
    while size:
        at = 0
        while at < len(plan.faults):
            fewer = plan.with_faults(plan.faults[:at] + plan.faults[at + size :])
            if budget.fails(fewer):
                plan = fewer
            else:
                at += size
        size //= 2
    return plan


def _shorten(plan: Plan, budget: _Budget) -> Plan:
    for at in range(len(plan.faults)):
        for share in (4, 2):
            fault = plan.faults[at]
            lasting_ms = max(LASTING_MS_MIN, fault.lasting_ms // share)
            shorter = _with_fault(plan, at, replace(fault, lasting_ms=lasting_ms))
            if lasting_ms < fault.lasting_ms and budget.fails(shorter):
                plan = shorter
    return plan


def _with_fault(plan: Plan, at: int, fault: Fault) -> Plan:
    return plan.with_faults((*plan.faults[:at], fault, *plan.faults[at + 1 :]))


_SIMPLEST: dict[str, Any] = {
    "stock_clients": False,
    "is_churning": False,
    "retention_bytes": -1,
    "producers": 1,
    "partitions": 1,
    "pipeline": 1,
    "preferred_master_delay_ms": -1,
    "policy": "all",
    "is_apart": False,
}


def _simplify(plan: Plan, budget: _Budget) -> Plan:
    for name, value in _SIMPLEST.items():
        simpler = replace(plan, shape=replace(plan.shape, **{name: value}))
        if simpler != plan and budget.fails(simpler):
            plan = simpler
    return plan
