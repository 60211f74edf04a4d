"""One round of chaos: a fresh cluster, clients of several kinds, and one fault after the other.

The next fault waits until all is whole again: every set with a master and all members in step. A
round ends with the judgement of its history and a comparison of all replicas; or at the first
promise that is broken, with the logs kept.
"""

import contextlib
import itertools
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import FIRST_CONTROLLER_ID, ClusterProcess
from harness.failover import is_whole
from harness.login import LISTENER, SecureListener
from harness.loop_disk import LoopDisk, tiny_tmpfs
from harness.node import Place
from harness.replica_bytes import differences
from harness.waiting import wait_until
from harness.workload import Load, Workload, Writer
from reliability.clients.group_reader import GroupReader
from reliability.clients.stock_writers import WRITERS
from reliability.clients.zombie_writer import ZombieWriter
from reliability.faults.chaos_process import set_clock
from reliability.faults.chaos_recovery import Outage, Recoveries, Window
from reliability.faults.chaos_scenarios import Layout, Promise, Scenario
from reliability.faults.chaos_stage import Injection, Stage, name_of_host
from reliability.faults.hosts import Hosts
from reliability.faults.trials import CLIENT_TIMEOUT_MS, QUICK_SESSIONS, SESSION_TIMEOUT_MS
from simulator.history import Outcome as Answer
from simulator.history import Report

TOPIC = "chaos"
PARTITIONS = 3
RECORDS_PER_SECOND = 400
"""Of each of the three kinds of clients."""
METADATA_MS = 1000
"""For some clients a request without an answer is no reason to ask who leads now: only age is."""
HEARD_SECONDS = 1.5 * METADATA_MS / 1000
"""Then every client has heard of every broker that is back. aiokafka and kafka-python forget those
they are not told of, and never ask their bootstrap servers again (KIP-899): where all that they
know of go at once, they wait for one of these."""
BATCH_BYTES_MAX = 16 << 10
"""What the other clients have by themselves; the backlog of an outage does not fit one segment."""
DISK_MIB = 384
"""Of each host; the medium is memory, so that nobody else's use of the real disk is measured."""
ACKED_BETWEEN_FAULTS = 200
SLOWLY_SECONDS = 0.1
"""Between two looks at a whole cluster: each asks every controller."""
WHOLE_SECONDS_MAX = 60.0
STRIKE_SECONDS_MAX = 10.0
FINDINGS_SHOWN = 20
STALL_TICK_SECONDS = 0.05
STALL_SECONDS = 0.25
HELD_SHARE = (0.1, 0.7)
"""How much of its cycle a fault lasts: some end before anybody has noticed, some long after."""
SETTINGS: dict[str, dict[str, object]] = {
    "controller": dict(QUICK_SESSIONS["controller"]),
    "replication": {**QUICK_SESSIONS["replication"], "replica_lag_time_ms": 3000},
    "log": {"segment_bytes": 128 << 10},
    "topic": {"message_timestamp_after_max_ms": (1 << 63) - 1},
    "net": {"connections_per_address_max": 0, "connection_rate_per_address_max": 0},
}
"""All clients come from one address. A slave that only crawls is left behind after 3 s. Small
segments: a full disk is noticed within seconds, and faults meet files being changed. A broker whose
clock is behind by more than the bound on timestamps refuses records as it should; not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a round is to do, and what it may use."""

    layout: Layout
    seed: str
    scenarios: Sequence[Scenario]
    directory: Path
    cycle_seconds: float
    world: str = ""
    """Name of the run in whose world of its own this is; empty: loopback addresses, no disks."""
    clock: Path | None = None
    """The library that lets clocks jump."""
    is_secure: bool = False
    """Whether clients come in over TLS and by SCRAM."""
    is_async: bool = False
    """Plant a bug: acknowledge before the disk has the records."""


@dataclass(slots=True, kw_only=True)
class Struck:
    """One fault as it was."""

    scenario: Scenario
    victims: str
    begun_ns: int
    healed_ns: int
    whole_ns: int
    recovery: dict[str, float] = field(default_factory=dict)
    """Seconds, by client."""

    @property
    def window(self) -> Window:
        """Where to look for its silences."""
        is_late = self.scenario.promise is Promise.HEAL
        return Window(self.begun_ns, self.whole_ns, self.healed_ns if is_late else 0)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a round did; `problems` is empty when every promise was kept."""

    layout: Layout
    seed: str
    is_secure: bool = False
    faults: list[Struck] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Processes that ended by themselves where that is allowed."""
    problems: list[str] = field(default_factory=list)
    report: Report | None = None
    zero_ns: int = 0
    seconds: float = 0.0
    outages: list[Outage] = field(default_factory=list)
    latencies: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    quantiles_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    acked_by: dict[str, int] = field(default_factory=dict)
    gave_up: list[str] = field(default_factory=list)
    compared_bytes: int = 0
    stalls: list[float] = field(default_factory=list)
    """Seconds that this machine itself stood still, each; nobody recovers in such a time."""


def run_round(plan: Plan) -> Outcome:
    """Do what the plan says."""
    outcome = Outcome(layout=plan.layout, seed=plan.seed, is_secure=plan.is_secure)
    with _stage(plan) as stage:
        load = Load(
            topic=TOPIC,
            partitions=PARTITIONS,
            producers=len(WRITERS),
            records_per_second=RECORDS_PER_SECOND,
            seed=stage.chooser.randrange(1 << 30),
            socket_timeout_ms=CLIENT_TIMEOUT_MS,
            metadata_ms=METADATA_MS,
            batch_bytes_max=BATCH_BYTES_MAX,
            direct_brokers=tuple(node.bootstrap for node in stage.cluster.nodes.values()),
            stale_seconds_max=SESSION_TIMEOUT_MS / 1000,
            lag_seconds_max=HELD_SHARE[1] * plan.cycle_seconds + Promise.HEAL.seconds,
        )
        bootstrap = stage.cluster.bootstrap
        if stage.login is not None:
            bootstrap, load.login = stage.cluster.listener_bootstrap, stage.login
        where = bootstrap, TOPIC, PARTITIONS
        companions = (
            ZombieWriter(*where, load.login),
            GroupReader(*where, CLIENT_TIMEOUT_MS, load.login),
        )
        workload = Workload(bootstrap, load, WRITERS, companions)
        _Round(plan, stage, workload, outcome).run()
        if outcome.problems:
            tails = plan.directory / "tails.txt"
            tails.write_text(stage.cluster.log_tails(60), encoding="utf-8")
    return outcome


def _settings(plan: Plan) -> dict[str, dict[str, object]]:
    if not plan.is_async:
        return SETTINGS
    # As late as can be: on a busy machine two seconds are over before the power goes.
    late = {"flush_policy": "async", "flush_interval_ms": 60_000}
    return {**SETTINGS, "log": {**SETTINGS["log"], **late}}


@contextlib.contextmanager
def _stage(plan: Plan) -> Iterator[Stage]:
    """Build hosts, disks and a cluster; take all of it away in the end."""
    chooser = random.Random(plan.seed)
    controllers = 3 if plan.layout is Layout.APART else 0
    ids = (1, 2, 3, *range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + controllers))
    with contextlib.ExitStack() as stack:
        hosts: Hosts | None = None
        disks: dict[int, LoopDisk] = {}
        clocks: dict[int, Path] = {}
        if plan.world:
            hosts = stack.enter_context(Hosts([name_of_host(one) for one in ids], seed=plan.seed))
            medium = plan.directory / "disks"
            stack.enter_context(tiny_tmpfs(medium, size_mib=DISK_MIB * len(ids)))
            for one in ids:
                # `losetup` shows the path within the medium: by it a run's disks are known again
                disk = LoopDisk(medium / plan.world / f"disk-{one}", size_mib=DISK_MIB)
                disks[one] = stack.enter_context(disk)
                clocks[one] = plan.directory / f"clock-{one}"
                set_clock(clocks[one], 0)

        def place_of(peer_id: int) -> Place:
            if hosts is None:
                return Place()
            clock = {"PENSTOCK_CHAOS_CLOCK": str(clocks[peer_id]), "LD_PRELOAD": str(plan.clock)}
            return hosts.place(name_of_host(peer_id), clock if plan.clock else None)

        listener = _listener(plan, [place_of(one).address for one in ids])
        cluster = ClusterProcess(
            plan.directory / "cluster",
            controllers=controllers,
            settings=_settings(plan),
            listener="" if listener is None else LISTENER,
            listener_security=None if listener is None else listener.settings(),
            data_of=(lambda one: disks[one].mount_point / "data") if plan.world else None,
            place_of=place_of,
        )
        for disk in disks.values():  # the directories were made by nobody who would sync them
            subprocess.run(["sync", "-f", str(disk.mount_point)], check=True)
        stack.enter_context(cluster)
        yield Stage(
            cluster=cluster,
            chooser=chooser,
            topic=TOPIC,
            partitions=PARTITIONS,
            directory=plan.directory,
            run_name=plan.world,
            hosts=hosts,
            disks=disks,
            clocks=clocks,
            login=None if listener is None else listener.login,
        )


def _listener(plan: Plan, addresses: Sequence[str]) -> SecureListener | None:
    if not plan.is_secure:
        return None
    directory = plan.directory / "security"
    directory.mkdir(parents=True)
    return SecureListener(directory, addresses)


@dataclass(slots=True)
class _Round:
    """The faults of a round on its stage."""

    plan: Plan
    stage: Stage
    workload: Workload
    outcome: Outcome
    is_over: threading.Event = field(default_factory=threading.Event)
    is_stuck: bool = False
    """Whether the cluster was not whole in time after a fault: it has had its time."""

    def run(self) -> None:
        """Break and mend as planned, then judge."""
        outcome = self.outcome
        outcome.zero_ns = time.monotonic_ns()
        watch = threading.Thread(target=self._watch_for_stalls, daemon=True)
        watch.start()
        self.workload.start()
        try:
            for scenario in self.plan.scenarios:
                self._one_fault(scenario)
                if outcome.problems:
                    break
        finally:
            self.workload.stop_writing()
            self.is_over.set()
            watch.join()
        outcome.seconds = (time.monotonic_ns() - outcome.zero_ns) / 1e9
        self._judge()

    def _one_fault(self, scenario: Scenario) -> None:
        stage, workload = self.stage, self.workload
        name = f"{scenario.name} (fault {stage.number})"
        if not wait_until(
            lambda: is_whole(stage.cluster), WHOLE_SECONDS_MAX, every_seconds=SLOWLY_SECONDS
        ):
            self._note(f"before {name}: the cluster was not whole in {WHOLE_SECONDS_MAX:.0f} s")
            return
        # A client in a process of its own may not even have found the cluster yet.
        acked, now_ns = workload.acked + ACKED_BETWEEN_FAULTS, time.monotonic_ns()
        if not (workload.wait_for(acked) and self._is_written(now_ns, Promise.HEAL.seconds)):
            self._note(f"before {name}: no writes of {self._silent(now_ns)}")
            return
        time.sleep(HEARD_SECONDS)
        injection = scenario.make(stage)
        begun_ns = time.monotonic_ns()
        try:
            injection.begin()
            is_struck = self._hold(scenario, injection, begun_ns, name)
        finally:
            injection.heal()
        healed_ns = time.monotonic_ns()
        self._wait_until_healed(scenario, healed_ns, f"{name}, {injection.victims}")
        fault = Struck(
            scenario=scenario,
            victims=injection.victims,
            begun_ns=begun_ns,
            healed_ns=healed_ns,
            whole_ns=time.monotonic_ns(),
        )
        stage.number += 1
        what = f"{scenario.row} {scenario.name}: {injection.victims}"
        print(f"{(begun_ns - self.outcome.zero_ns) / 1e9:7.1f} s  {what}", flush=True)
        if is_struck:
            self.outcome.faults.append(fault)
        else:
            self.outcome.without_effect.append(what)
        self._pause(begun_ns)

    def _hold(self, scenario: Scenario, injection: Injection, begun_ns: int, name: str) -> bool:
        """Let it be broken for a while; returns whether that had an effect."""
        seconds = self.stage.chooser.uniform(*HELD_SHARE) * self.plan.cycle_seconds
        is_struck = wait_until(
            injection.has_struck, STRIKE_SECONDS_MAX, every_seconds=SLOWLY_SECONDS
        )
        if scenario.promise is not Promise.HEAL and not self._is_written(
            begun_ns, scenario.promise.seconds
        ):
            self._note(
                f"{name}, {injection.victims}: writes did not go on in "
                f"{scenario.promise.seconds:.0f} s of the fault: {self._silent(begun_ns)}"
            )
        rest = seconds - (time.monotonic_ns() - begun_ns) / 1e9
        time.sleep(max(0.0, rest))
        return is_struck

    def _wait_until_healed(self, scenario: Scenario, healed_ns: int, name: str) -> None:
        stage = self.stage
        is_written = self._is_written(healed_ns, Promise.HEAL.seconds, scenario)
        if not is_written:
            self._note(
                f"{name}: no writes after it, in {Promise.HEAL.seconds:.0f} s or until a client "
                f"ended: {self._silent(healed_ns)}"
            )
        # One that has lost what it acknowledged may never be whole; the plant is found by the loss.
        seconds = 0.0 if self.plan.is_async else WHOLE_SECONDS_MAX
        self.is_stuck = not wait_until(
            lambda: self._are_all_there(scenario) and is_whole(stage.cluster),
            seconds,
            every_seconds=SLOWLY_SECONDS,
        )
        if self.is_stuck and not self.plan.is_async:
            self._note(f"{name}: the cluster was not whole {seconds:.0f} s after it")

    def _are_all_there(self, scenario: Scenario) -> bool:
        """Start processes that ended where that is allowed; elsewhere it is a problem."""
        for peer_id, process in self.stage.cluster.processes.items():
            if process.is_running:
                continue
            text = f"{scenario.name}: {peer_id} ended by itself"
            if not scenario.may_end:
                self._note(f"{text}: {process.log_tail(5)}")
            self.outcome.ended.append(text)
            process.launch()
        return True

    def _is_written(self, since_ns: int, seconds: float, scenario: Scenario | None = None) -> bool:
        """Wait until every client had something acknowledged that it sent after `since_ns`.

        Not for one that has ended: that breaks the round anyway.
        """
        parts, workload = range(PARTITIONS), self.workload

        def is_over() -> bool:
            if scenario is not None:
                self._are_all_there(scenario)
            return bool(workload.fatal_errors) or workload.has_acked_since(since_ns, parts)

        wait_until(is_over, seconds, every_seconds=0.03)
        return workload.has_acked_since(since_ns, parts)

    def _silent(self, since_ns: int) -> str:
        """Say which clients had nothing acknowledged from which partitions since then."""
        return ", ".join(
            f"{writer.kind}/{partition}"
            for writer, partition in itertools.product(self.workload.writers, range(PARTITIONS))
            if writer.tally.last_acked_ns.get(partition, 0) <= since_ns
        )

    def _pause(self, begun_ns: int) -> None:
        """Wait for the rest of the cycle."""
        spent = (time.monotonic_ns() - begun_ns) / 1e9
        time.sleep(max(0.0, min(self.plan.cycle_seconds - spent, self.plan.cycle_seconds)))

    def _watch_for_stalls(self) -> None:
        before = time.monotonic()
        while not self.is_over.wait(STALL_TICK_SECONDS):
            now = time.monotonic()
            late = now - before - STALL_TICK_SECONDS
            if late > STALL_SECONDS:
                self.outcome.stalls.append(round(late, 3))
            before = now

    def _note(self, problem: str) -> None:
        self.outcome.problems.append(problem)

    def _judge(self) -> None:
        outcome, workload, cluster = self.outcome, self.workload, self.stage.cluster
        seconds = 0.0 if self.is_stuck else WHOLE_SECONDS_MAX
        is_in_step = wait_until(lambda: is_whole(cluster), seconds, every_seconds=SLOWLY_SECONDS)
        if not is_in_step:
            self._note("the cluster did not become whole in the end")
        report = outcome.report = workload.finish()
        outcome.problems += [*workload.fatal_errors, *workload.refusals[:FINDINGS_SHOWN]]
        outcome.problems += [
            f"{finding.anomaly.value} in partition {finding.partition}: {finding.detail}"
            for finding in report.findings[:FINDINGS_SHOWN]
        ]
        if report.read == 0:
            self._note("nothing could be read")
        if is_in_step:
            outcome.compared_bytes, found = differences(cluster)
            outcome.problems += found
        recoveries = Recoveries(workload)
        for fault in outcome.faults:
            fault.recovery = recoveries.of_fault(fault.window)
        outcome.outages = recoveries.outages(outcome.zero_ns)
        outcome.latencies = recoveries.latencies(outcome.zero_ns)
        outcome.quantiles_ms = recoveries.quantiles_ms()
        outcome.acked_by = {writer.kind: writer.tally.acked for writer in workload.writers}
        outcome.gave_up = [
            text for writer in workload.writers for text in _given_up(writer, outcome.zero_ns)
        ]


def _given_up(writer: Writer, zero_ns: int) -> list[str]:
    """Say which records were not acknowledged, and why if the client said so."""
    left = [record for record in writer.records if record.outcome is not Answer.ACKED]
    if not left:
        return []
    first, last = left[0], left[-1]
    parts = sorted({one.partition for one in left})
    return [
        f"{writer.kind}: {len(left)} records of partitions {parts} without an acknowledgement, "
        f"{first.value} sent at {(first.start_ns - zero_ns) / 1e9:.1f} s to {last.value} at "
        f"{(last.start_ns - zero_ns) / 1e9:.1f} s; {'; '.join(writer.tally.reasons)}"
    ]
