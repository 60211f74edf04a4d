"""Breaks a node again and again under load, and judges what the clients saw."""

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.loop_disk import LoopDisk
from harness.node import NodeProcess, SettingsOf
from harness.results import median, publish
from harness.waiting import UNTIL_SECONDS
from harness.workload import Load, Workload
from reliability import RESULTS
from simulator.history import Report

ACKED_BETWEEN_FAULTS = 150
PAUSE_SECONDS_MAX = 0.3
PROGRESS_SECONDS = UNTIL_SECONDS


GOAL = "0 lost, 0 double, 0 out of order"


@dataclass(slots=True, kw_only=True)
class FaultRun:
    """What a series of faults did; `problems` is empty when every promise was kept."""

    faults: int = 0
    report: Report | None = None
    start_seconds: list[float] = field(default_factory=list)
    gaps_seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_row(self) -> dict[str, object]:
        """Return the figures for a table."""
        report = self.report
        assert report is not None, "the run did not come to its end"
        gaps = sorted(self.gaps_seconds)
        return {
            "faults": self.faults,
            "sent": report.sent,
            "acknowledged": report.acked,
            "read": report.read,
            "lost": report.lost,
            "double": report.doubled,
            "out of order": report.disordered,
            "other findings": len(report.findings)
            - report.lost
            - report.doubled
            - report.disordered,
            "restart s, median": median(self.start_seconds),
            "gap s, median": median(gaps),
            "gap s, max": gaps[-1] if gaps else 0.0,
            "verdict": "ok" if not self.problems else "; ".join(self.problems)[:200],
        }


def kill_repeatedly(
    directory: Path, *, kills: int, load: Load, settings: SettingsOf | None = None
) -> FaultRun:
    """Kill the node with -9 while clients write, `kills` times; it is started again at once."""
    node = NodeProcess(directory, settings=settings)

    def fault() -> float:
        node.kill()
        return node.start()

    with node:
        return _break_repeatedly(node, load=load, faults=kills, fault=fault)


def cut_power_repeatedly(
    directory: Path, *, cuts: int, load: Load, settings: SettingsOf | None = None
) -> FaultRun:
    """Cut the power of the node's disk while clients write, `cuts` times."""
    with LoopDisk(directory, size_mib=2048) as disk:
        node = NodeProcess(directory / "node", data=disk.mount_point / "data", settings=settings)

        def fault() -> float:
            node.freeze()  # a sync that overlaps the cut may report success and lose its data
            disk.cut_power()
            node.kill()
            disk.unmount()
            disk.mount()
            return node.start()

        with node:
            return _break_repeatedly(node, load=load, faults=cuts, fault=fault)


def _break_repeatedly(
    node: NodeProcess, *, load: Load, faults: int, fault: Callable[[], float]
) -> FaultRun:
    run = FaultRun()
    chooser = random.Random(load.seed)
    workload = Workload(node.bootstrap, load)
    workload.start()
    try:
        for _ in range(faults):
            if not workload.wait_for(workload.acked + ACKED_BETWEEN_FAULTS, PROGRESS_SECONDS):
                run.problems.append(f"nothing acknowledged for {PROGRESS_SECONDS} s")
                run.problems.append(f"the end of the node's log: {node.log_tail()}")
                break
            time.sleep(chooser.uniform(0, PAUSE_SECONDS_MAX))
            run.start_seconds.append(fault())
            run.faults += 1
    finally:
        workload.stop_writing()
    if not node.is_running:
        run.problems.append(f"the node ended by itself: {node.log_tail()}")
        node.start()
    run.report = workload.finish()
    run.gaps_seconds = [gap / 1000 for gap in workload.longest_gaps_ms(max(1, run.faults))]
    run.problems += workload.fatal_errors
    run.problems += [
        f"{finding.anomaly.value} in partition {finding.partition}: {finding.detail}"
        for finding in run.report.findings[:20]
    ]
    if run.report.read == 0:
        run.problems.append("nothing could be read")
    return run


def judge(name: str, series: Callable[[Path], FaultRun]) -> bool:
    """Run a series in a fresh directory, publish what it found, and say whether all is well.

    The node's settings and log are kept where a promise was broken.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"penstock-{name.replace('_', '-')}-"))
    outcome = series(directory)
    publish(RESULTS, name, [outcome.as_row()], goal=GOAL)
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    if outcome.problems:
        print(f"settings and log of the node are kept in {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return not outcome.problems
