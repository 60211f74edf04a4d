"""The report of a run as text, and its figures as plain data that can be summed over runs."""

import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from simulator.run.one_run import RunResult
from simulator.run.plan import OPERATIONS

FINDINGS_SHOWN = 12


def commit() -> str:
    """Return the commit that the code is of, `+` behind it where files were changed."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],  # noqa: S607  the one on the path
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


def line(result: RunResult) -> str:
    """Return a run in one line."""
    verdict = "ok  " if result.is_clean else "FAIL"
    shape = result.plan.shape
    layout = "apart" if shape.is_apart else "nodes"
    text = (
        f"{verdict} seed {result.plan.seed:>6} "
        f"{layout} {shape.replication_factor}x {shape.policy:<8} "
        f"faults {result.fault_count:>3} acked {result.acked:>5} "
        f"{result.virtual_s:6.1f} s in {result.cpu_s:5.1f} CPU-s {result.digest}"
    )
    return text if result.is_clean else f"{text}\n     {result.findings[0]}"


def story(result: RunResult) -> Iterator[str]:
    """Yield the lines that say all of one run."""
    plan = result.plan
    yield f"seed {plan.seed}, commit {commit()}"
    yield f"cluster: {', '.join(f'{name}={value}' for name, value in asdict(plan.shape).items())}"
    yield f"fault plan ({len(plan.faults)}):"
    yield from (f"  {fault}" for fault in plan.faults)
    hit = ", ".join(f"{kind} {count}" for kind, count in sorted(result.faults.items()))
    yield f"faults that hit: {result.fault_count} ({hit}); hit nothing: {result.missed}"
    yield f"records: sent {result.sent}, acknowledged {result.acked}, read {result.read}"
    yield (
        f"{result.virtual_s:.1f} simulated s, {result.steps} callbacks, {result.checks} checks, "
        f"{result.cpu_s:.1f} CPU-s"
    )
    yield f"trace {result.digest}"
    if result.is_clean:
        yield "every promise was kept"
        return
    yield f"BROKEN PROMISES ({len(result.findings)}):"
    yield from (f"  {text}" for text in result.findings[:FINDINGS_SHOWN])


def figures(result: RunResult) -> dict[str, Any]:
    """Return what is kept of a run."""
    shape = result.plan.shape
    return {
        "digest": result.digest,
        "layout": f"{'apart' if shape.is_apart else 'nodes'} {shape.replication_factor}x",
        "policy": shape.policy,
        "stock_clients": shape.stock_clients,
        "faults": result.faults,
        "missed": result.missed,
        "sent": result.sent,
        "acked": result.acked,
        "read": result.read,
        "checks": result.checks,
        "virtual_s": round(result.virtual_s, 3),
        "cpu_s": round(result.cpu_s, 2),
        "findings": result.findings[:FINDINGS_SHOWN],
    }


def totals(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums over runs."""
    kinds: Counter[str] = Counter()
    layouts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for run in runs:
        sums["runs"] += 1
        sums["broken"] += bool(run["findings"])
        kinds.update(run["faults"])
        layouts[f"{run['layout']} {run['policy']}"] += 1
        for name in ("missed", "sent", "acked", "read", "checks"):
            sums[name] += run[name]
        for name in ("virtual_s", "cpu_s"):
            seconds[name] += run[name]
    return {
        **sums,
        "faults": sum(count for kind, count in kinds.items() if kind not in OPERATIONS),
        "faults_by_kind": {kind: n for kind, n in sorted(kinds.items()) if kind not in OPERATIONS},
        "operations": {kind: n for kind, n in sorted(kinds.items()) if kind in OPERATIONS},
        "runs_by_layout": dict(sorted(layouts.items())),
        **{name: round(value, 1) for name, value in seconds.items()},
    }
