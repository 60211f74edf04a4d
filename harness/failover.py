"""Breaks the node that leads a partition, again and again, and measures what each client noticed.

A fault hits the leader of one partition, chosen in turn. Before the next one the cluster has to be
whole again: every member of every set in step. The gap of a client is the time between its last
acknowledgement of a partition before the fault and the first one after it, for the partitions that
the broken node led: other partitions never stop, and would hide it.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import Load, Workload
from simulator.history import Report

ACKED_BETWEEN_FAULTS = 300
PAUSE_SECONDS_MAX = 0.5
WHOLE_SECONDS_MAX = UNTIL_SECONDS
SILENT_SECONDS_MAX = UNTIL_SECONDS


class Fault(NamedTuple):
    """One fault: what it was, whom it hit, when, and what that one led."""

    kind: str
    broker_id: int
    at_ns: int
    partitions: tuple[int, ...]
    over_ns: int
    """When the one who broke it had done that."""


Break = Callable[[ClusterProcess, int], None]
"""Does something to a broker; called when the cluster is whole."""
Mend = Callable[[ClusterProcess, int], None]
"""Makes the broker whole again; called when its partitions are led by others."""


@dataclass(slots=True, kw_only=True)
class FailoverRun:
    """What a series of faults did; `problems` is empty when every promise was kept."""

    faults: list[Fault] = field(default_factory=list)
    report: Report | None = None
    gaps_seconds: list[float] = field(default_factory=list)
    """One per fault, client and partition that was led by the broken node."""
    problems: list[str] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Return the gap that this share of all gaps does not exceed, in seconds."""
        gaps = sorted(self.gaps_seconds)
        return gaps[min(len(gaps) - 1, int(share * len(gaps)))] if gaps else 0.0

    def as_row(self, kind: str) -> dict[str, object]:
        """Return the figures for a table."""
        report = self.report
        assert report is not None, "the run did not come to its end"
        return {
            "fault": kind,
            "faults": len(self.faults),
            "sent": report.sent,
            "acknowledged": report.acked,
            "lost": report.lost,
            "double": report.doubled,
            "out of order": report.disordered,
            "findings": len(report.findings),
            "gap s, p50": round(self.quantile(0.50), 3),
            "gap s, p99": round(self.quantile(0.99), 3),
            "gap s, max": round(max(self.gaps_seconds, default=0.0), 3),
            "verdict": "ok" if not self.problems else "; ".join(self.problems)[:300],
        }


@dataclass(slots=True, kw_only=True)
class Failovers:
    """A series of faults of one kind on a cluster that was started."""

    cluster: ClusterProcess
    load: Load
    kind: str
    break_it: Break
    mend_it: Mend
    run: FailoverRun = field(default_factory=FailoverRun)

    def repeat(self, faults: int) -> FailoverRun:
        """Break and mend so many times under load, then judge; ends early when it does not heal."""
        chooser = random.Random(self.load.seed)
        workload = Workload(self.cluster.bootstrap, self.load)
        workload.start()
        try:
            for number in range(faults):
                problem = self._one_fault(workload, number % self.load.partitions)
                if problem is not None:
                    self.run.problems += [problem, self.cluster.log_tails()]
                    break
                self.mend_it(self.cluster, self.run.faults[-1].broker_id)
                time.sleep(chooser.uniform(0, PAUSE_SECONDS_MAX))
        finally:
            workload.stop_writing()
        self._judge(workload)
        return self.run

    def _one_fault(self, workload: Workload, partition: int) -> str | None:
        """Wait until all is well, break the partition's leader, wait until it takes writes."""
        cluster, topic, run = self.cluster, self.load.topic, self.run
        name = f"fault {len(run.faults)}"
        if not wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX):
            return f"{name}: the cluster was not whole in {WHOLE_SECONDS_MAX} s"
        if not workload.wait_for(workload.acked + ACKED_BETWEEN_FAULTS):
            return f"{name}: nothing was acknowledged any more"
        parts = range(self.load.partitions)
        leaders = {part: cluster.wait_for_leader(topic, part) for part in parts}
        victim = leaders[partition]
        led = tuple(part for part, leader in leaders.items() if leader == victim)
        at_ns = time.monotonic_ns()
        self.break_it(cluster, victim)
        over_ns = time.monotonic_ns()
        run.faults.append(Fault(self.kind, victim, at_ns, led, over_ns))
        if not wait_until(lambda: workload.has_acked_since(over_ns, led), SILENT_SECONDS_MAX):
            return f"{name}: partitions {led} took no writes for {SILENT_SECONDS_MAX} s"
        return None

    def _judge(self, workload: Workload) -> None:
        run = self.run
        if not wait_until(lambda: is_whole(self.cluster), WHOLE_SECONDS_MAX):
            run.problems.append("the cluster did not become whole in the end")
        run.report = workload.finish()
        run.gaps_seconds = [
            gap
            for fault in run.faults
            for gap in workload.gaps_around(fault.at_ns, fault.partitions, until=fault.over_ns)
        ]
        run.problems += workload.fatal_errors
        run.problems += [
            f"{finding.anomaly.value} in partition {finding.partition}: {finding.detail}"
            for finding in run.report.findings[:20]
        ]
        if run.report.read == 0:
            run.problems.append("nothing could be read")


def is_whole(cluster: ClusterProcess) -> bool:
    """Whether every set has a master and all of its members in step, and controllers know all."""
    found = cluster.status_now()
    sets = found["sets"] if found else []
    is_in_step = bool(sets) and all(
        replica_set["master"] in replica_set["sync_state_set"]
        and sorted(replica_set["sync_state_set"])
        == sorted(each["broker_id"] for each in replica_set["members"])
        for replica_set in sets
    )
    return is_in_step and cluster.is_heard_everywhere()


def kill(cluster: ClusterProcess, broker_id: int) -> None:
    """End the node with -9."""
    cluster.nodes[broker_id].kill()


def start_again(cluster: ClusterProcess, broker_id: int) -> None:
    """Start a node that was killed."""
    cluster.nodes[broker_id].launch()


def pause(cluster: ClusterProcess, broker_id: int) -> None:
    """Stop the node with SIGSTOP."""
    cluster.nodes[broker_id].pause()


def resume(cluster: ClusterProcess, broker_id: int) -> None:
    """Let a stopped node go on."""
    cluster.nodes[broker_id].resume()


def leave_be(cluster: ClusterProcess, broker_id: int) -> None:
    """Mend nothing: nothing was broken."""
