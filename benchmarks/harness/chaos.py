"""Faults of many kinds on a cluster of real processes, and what its clients noticed of each.

    kind              hit by -9 (kill) or SIGSTOP (stop)                writes come back
    *-broker          the broker that leads a partition                 after an election
    *-brokers         a random majority of brokers, one is left         after an election
    *-controller      the active controller                             never stop
    *-controllers     a random majority of controllers, or all          never stop
    *-both            the leader and the active controller              after two elections
    *-most            a majority of brokers and of controllers          once they are there again
    *-node            the node that leads, with the controller in it    after two elections

The last kind has a cluster of its own, with controllers inside. Each kind has a topic and clients
of its own, so that its history is judged by itself. The next fault waits until all is whole again.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from benchmarks.harness.cluster import ClusterProcess
from benchmarks.harness.failover import SILENT_SECONDS_MAX, WHOLE_SECONDS_MAX, is_whole
from benchmarks.harness.workload import Load, Workload, wait_until
from penstock.sim.history import Report

ACKED_BETWEEN_FAULTS = 200
HOLD_SECONDS_MAX = 1.5
"""How long a fault lasts at most once clients go on, before what was broken is mended."""


class Share(Enum):
    """How many of the brokers, or of the controllers, are hit."""

    NONE = "none"
    ONE = "the one that leads"
    MOST = "a random majority"
    MOST_OR_ALL = "a random majority, or all"


class Kind(NamedTuple):
    """One kind of fault; see the module for what they mean."""

    name: str
    is_stop: bool
    brokers: Share
    controllers: Share
    are_controllers_apart: bool = True

    @property
    def heals_by_mending(self) -> bool:
        """Whether nothing can be elected before what was hit is there again."""
        return self.brokers is not Share.NONE and self.controllers in {
            Share.MOST,
            Share.MOST_OR_ALL,
        }


def _kinds(signal: str, *, is_stop: bool) -> tuple[Kind, ...]:
    none, one, most = Share.NONE, Share.ONE, Share.MOST
    return (
        Kind(f"{signal}-broker", is_stop, one, none),
        Kind(f"{signal}-brokers", is_stop, most, none),
        Kind(f"{signal}-controller", is_stop, none, one),
        Kind(f"{signal}-controllers", is_stop, none, Share.MOST_OR_ALL),
        Kind(f"{signal}-both", is_stop, one, one),
        Kind(f"{signal}-most", is_stop, most, most),
        Kind(f"{signal}-node", is_stop, one, none, are_controllers_apart=False),
    )


KINDS = {
    kind.name: kind for kind in (*_kinds("kill", is_stop=False), *_kinds("stop", is_stop=True))
}


class Span(NamedTuple):
    """One fault as it was: who was hit, when, until when, and whose clients had to notice."""

    victims: tuple[int, ...]
    begun_ns: int
    mended_ns: int
    partitions: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class ChaosRun:
    """What the faults of one kind did; `problems` is empty when every promise was kept."""

    kind: Kind
    spans: list[Span] = field(default_factory=list)
    report: Report | None = None
    write_gaps: list[float] = field(default_factory=list)
    """Seconds without an acknowledgement; one per fault, producer and partition."""
    read_gaps: list[float] = field(default_factory=list)
    """Seconds without a record; one per fault and partition."""
    latencies: list[tuple[int, int]] = field(default_factory=list)
    """(acknowledged at, latency) of every record, ns."""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Chaos:
    """Faults of one kind on a cluster that was started."""

    cluster: ClusterProcess
    kind: Kind
    load: Load
    chooser: random.Random
    run: ChaosRun = field(init=False)

    def __post_init__(self) -> None:
        self.run = ChaosRun(kind=self.kind)

    def repeat(self, goes_on: Callable[[int], bool]) -> ChaosRun:
        """Break and mend as long as `goes_on(faults so far)`, then judge."""
        workload = Workload(self.cluster.bootstrap, self.load)
        workload.start()
        try:
            while goes_on(len(self.run.spans)) and not self.run.problems:
                self._one_fault(workload)
        finally:
            workload.stop_writing()
        self._judge(workload)
        return self.run

    def _one_fault(self, workload: Workload) -> None:
        name = f"{self.kind.name} {len(self.run.spans)}"
        if not wait_until(lambda: is_whole(self.cluster), WHOLE_SECONDS_MAX):
            self._note(f"{name}: the cluster was not whole in {WHOLE_SECONDS_MAX} s")
            return
        if not workload.wait_for(workload.acked + ACKED_BETWEEN_FAULTS):
            self._note(f"{name}: nothing was acknowledged any more")
            return
        victims, partitions = self._choose()
        begun_ns = time.monotonic_ns()
        for victim in victims:
            self._break(victim)
        is_writable = True
        if not self.kind.heals_by_mending:
            is_writable = self._is_writable(workload, begun_ns, partitions)
        time.sleep(self.chooser.uniform(0.1, HOLD_SECONDS_MAX))
        mended_ns = time.monotonic_ns()
        for victim in victims:
            self._mend(victim)
        self.run.spans.append(Span(victims, begun_ns, mended_ns, partitions))
        is_writable = is_writable and self._is_writable(workload, begun_ns, partitions)
        if not is_writable:
            self._note(f"{name}: {partitions} took no writes for {SILENT_SECONDS_MAX} s; {victims}")

    def _is_writable(self, workload: Workload, since_ns: int, partitions: tuple[int, ...]) -> bool:
        return wait_until(
            lambda: workload.has_acked_since(since_ns, partitions), SILENT_SECONDS_MAX
        )

    def _choose(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return whom to hit, and the partitions whose clients may notice."""
        parts = range(self.load.partitions)
        leaders = {part: self.cluster.wait_for_leader(self.load.topic, part) for part in parts}
        brokers = self._chosen_brokers(leaders)
        victims = (*brokers, *self._chosen_controllers())
        led = tuple(part for part, leader in leaders.items() if leader in brokers)
        # A stopped slave holds up every master that waits for it; a dead one is noticed at once.
        is_everybody_hit = not led or self.kind.is_stop or self.kind.heals_by_mending
        return victims, tuple(parts) if is_everybody_hit else led

    def _chosen_brokers(self, leaders: dict[int, int]) -> tuple[int, ...]:
        ids = list(self.cluster.nodes)
        match self.kind.brokers:
            case Share.NONE:
                return ()
            case Share.ONE:
                return (leaders[len(self.run.spans) % self.load.partitions],)
            case _:
                return tuple(sorted(self.chooser.sample(ids, min(len(ids) // 2 + 1, len(ids) - 1))))

    def _chosen_controllers(self) -> tuple[int, ...]:
        ids = list(self.cluster.controllers)
        most = tuple(sorted(self.chooser.sample(ids, len(ids) // 2 + 1))) if ids else ()
        match self.kind.controllers:
            case Share.NONE:
                return ()
            case Share.ONE:
                return (int(self.cluster.status()["controller"]["active_id"]),)
            case Share.MOST:
                return most
            case Share.MOST_OR_ALL:
                return most if len(self.run.spans) % 2 else tuple(ids)

    def _break(self, peer_id: int) -> None:
        process = self.cluster.processes[peer_id]
        if self.kind.is_stop:
            process.pause()
        else:
            process.kill()

    def _mend(self, peer_id: int) -> None:
        process = self.cluster.processes[peer_id]
        if self.kind.is_stop:
            process.resume()
        else:
            process.launch()

    def _note(self, problem: str) -> None:
        self.run.problems += [problem, self.cluster.log_tails()]

    def _judge(self, workload: Workload) -> None:
        run = self.run
        if not wait_until(lambda: is_whole(self.cluster), WHOLE_SECONDS_MAX):
            self._note(f"{self.kind.name}: the cluster did not become whole in the end")
        run.report = workload.finish()
        for span in run.spans:
            is_late = self.kind.heals_by_mending
            at_ns = span.mended_ns if is_late else span.begun_ns
            count_from = at_ns if is_late else 0
            run.write_gaps += workload.gaps_around(at_ns, span.partitions, count_from=count_from)
            run.read_gaps += workload.read_gaps_around(
                at_ns, span.partitions, count_from=count_from
            )
        run.latencies = workload.acks()
        run.problems += [*workload.fatal_errors, *workload.refusals]
        run.problems += [
            f"{self.kind.name}: {finding.anomaly.value} in partition {finding.partition}: "
            f"{finding.detail}"
            for finding in run.report.findings[:20]
        ]
        if run.report.read == 0:
            run.problems.append(f"{self.kind.name}: nothing could be read")
