"""Runs of small plans, for tests that plant a bug and want it found."""

from simulator.run.one_run import run_plan
from simulator.run.plan import Fault, FaultKind, Plan, Shape


def kill(at_ms: int, target: str, lasting_ms: int = 800) -> Fault:
    """Return the kill of a process, which is started again after a while."""
    return Fault(kind=FaultKind.KILL, at_ms=at_ms, lasting_ms=lasting_ms, targets=(target,))


def first_findings(shape: Shape, faults: tuple[Fault, ...], seeds: int) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    for seed in range(seeds):
        if findings := run_plan(Plan(seed=seed, shape=shape, faults=faults)).findings:
            return findings
    return []
