"""Trials of a cluster beyond one broken node at a time: each says what was broken, as problems.

A trial starts its own cluster in a directory, breaks it under load, judges the history and compares
the replicas byte for byte. An empty list of problems means that every promise was kept.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.cluster import ClusterProcess
from harness.failover import SILENT_SECONDS_MAX, WHOLE_SECONDS_MAX, is_whole
from harness.loop_disk import LoopDisk
from harness.replica_bytes import differences
from harness.waiting import wait_until
from harness.workload import Load, Workload, create_topic
from reliability.clients.side_client import SideClient
from reliability.faults.switchboard import OUTSIDE, Switchboard
from simulator.history import Report

ACKED_BEFORE = 500
SESSION_TIMEOUT_MS = 1_500
LEASE_MS = 600
"""With the 800 ms that a cut-off active controller needs to know it, below the above."""
QUICK_SESSIONS = {
    "controller": {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_interval_ms": 150},
    "replication": {"lease_ms": LEASE_MS, "keep_alive_ms": 150, "link_silence_ms": 1_500},
}
"""A hang or a cut is noticed by silence alone: within this time here."""
CLIENT_TIMEOUT_MS = 800
"""After so long without an answer a client asks elsewhere: nothing else tells it of a hang."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """What a trial found."""

    name: str
    faults: int = 0
    report: Report | None = None
    gaps_seconds: list[float] = field(default_factory=list)
    failed: int = 0
    """Records that were not acknowledged."""
    compared_bytes: int = 0
    problems: list[str] = field(default_factory=list)

    def as_row(self) -> dict[str, object]:
        """Return the figures for a table."""
        report, gaps = self.report, sorted(self.gaps_seconds) or [0.0]
        assert report is not None, "the trial did not come to its end"
        return {
            "trial": self.name,
            "faults": self.faults,
            "acknowledged": report.acked,
            "not acknowledged": self.failed,
            "lost": report.lost,
            "double": report.doubled,
            "out of order": report.disordered,
            "findings": len(report.findings),
            "gap s, max": round(gaps[-1], 3),
            "equal MB": round(self.compared_bytes / 1e6, 1),
            "verdict": "ok" if not self.problems else "; ".join(self.problems)[:300],
        }

    def expect(self, is_so: bool, problem: str) -> bool:
        """Note a problem unless it is so; returns whether it is."""
        if not is_so:
            self.problems.append(problem)
        return is_so

    def judge(self, cluster: ClusterProcess, workload: Workload, *others: object) -> None:
        """End the load, judge the history, compare the replicas."""
        workload.stop_writing()
        is_in_step = wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX)
        self.expect(is_in_step, "the cluster did not become whole")
        self.report = workload.finish(*others)  # type: ignore[arg-type]
        self.failed = self.report.sent - self.report.acked
        self.problems += [*workload.fatal_errors, *workload.refusals]
        self.problems += [
            f"{finding.anomaly.value} in partition {finding.partition}: {finding.detail}"
            for finding in self.report.findings[:20]
        ]
        self.expect(self.report.read > 0, "nothing could be read")
        if is_in_step:
            self.compared_bytes, found = differences(cluster)
            self.problems += found
        if self.problems:
            self.problems.append(cluster.log_tails())


def wait_for_load(trial: Trial, cluster: ClusterProcess, workload: Workload) -> bool:
    """Wait until the cluster is whole and takes records."""
    return trial.expect(
        wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX), "the cluster was never whole"
    ) and trial.expect(
        workload.wait_for(workload.acked + ACKED_BEFORE), "nothing was acknowledged any more"
    )


def goes_on(workload: Workload, since_ns: int, partitions: tuple[int, ...]) -> bool:
    """Wait until every writer had something acknowledged that it sent after `since_ns`."""
    return wait_until(lambda: workload.has_acked_since(since_ns, partitions), SILENT_SECONDS_MAX)


def no_controllers(directory: Path, *, seconds: float, seed: int = 1) -> Trial:
    """All controllers are dead for so long: not one write may fail, not one read be refused."""
    trial = Trial(name=f"no controllers for {seconds:g} s")
    with ClusterProcess(directory, controllers=3) as cluster:
        load = Load(
            seed=seed,
            records_per_second=600,
            is_idempotent=False,
            has_retries=False,
            direct_brokers=tuple(map(cluster.address_of, cluster.nodes)),
        )
        workload = Workload(cluster.bootstrap, load)
        workload.start()
        if wait_for_load(trial, cluster, workload):
            begun_ns = time.monotonic_ns()
            for controller in cluster.controllers.values():
                controller.kill()
            trial.faults = 1
            while time.monotonic_ns() < begun_ns + seconds * 1e9 and not trial.problems:
                now_ns = time.monotonic_ns()
                trial.expect(goes_on(workload, now_ns, (0, 1, 2)), "a partition took no writes")
            for controller in cluster.controllers.values():
                controller.launch()
            trial.gaps_seconds = workload.gaps_between(begun_ns, time.monotonic_ns(), (0, 1, 2))
        trial.judge(cluster, workload)
        trial.expect(trial.failed == 0, f"{trial.failed} writes failed")
    return trial


def last_member(directory: Path, *, members: int, seed: int = 1) -> Trial:
    """Kill one member of a set after the other under load; the last one has to take over."""
    trial = Trial(name=f"last of {members} members")
    with ClusterProcess(directory, brokers=members, controllers=3, replicas=members) as cluster:
        workload = Workload(cluster.bootstrap, Load(seed=seed, records_per_second=400))
        workload.start()
        if wait_for_load(trial, cluster, workload):
            for _ in range(members - 1):
                victim = cluster.wait_for_leader("history", 0)
                begun_ns = time.monotonic_ns()
                cluster.nodes[victim].kill()
                trial.faults += 1
                if not trial.expect(
                    goes_on(workload, begun_ns, (0, 1, 2)), f"no writes after {victim} died"
                ):
                    break
                trial.gaps_seconds += workload.gaps_between(
                    begun_ns, time.monotonic_ns(), (0, 1, 2)
                )
        for node in cluster.nodes.values():
            if not node.is_running:
                node.launch()
        trial.judge(cluster, workload)
    return trial


def power_loss(directory: Path, *, cuts: int, seed: int = 1) -> Trial:
    """Cut the power of all three nodes at once, under load. Needs root, see LoopDisk."""
    trial = Trial(name="power loss of all nodes")
    with contextlib.ExitStack() as stack:
        disks = {
            peer_id: stack.enter_context(LoopDisk(directory / f"disk-{peer_id}", size_mib=1024))
            for peer_id in (1, 2, 3)
        }
        cluster = stack.enter_context(
            ClusterProcess(
                directory / "cluster",
                data_of=lambda peer_id: disks[peer_id].mount_point / "data",
            )
        )
        workload = Workload(cluster.bootstrap, Load(seed=seed, records_per_second=600))
        workload.start()
        while trial.faults < cuts and wait_for_load(trial, cluster, workload):
            _cut_power(cluster, disks)
            trial.faults += 1
        trial.judge(cluster, workload)
        cluster.kill()
    return trial


def _cut_power(cluster: ClusterProcess, disks: dict[int, LoopDisk]) -> None:
    for node in cluster.nodes.values():
        node.freeze()
    for disk in disks.values():
        disk.cut_power()
    for peer_id, node in cluster.nodes.items():
        node.kill()
        disks[peer_id].unmount()
        disks[peer_id].mount()
    for node in cluster.nodes.values():
        node.launch()


def cut_off(directory: Path, *, cuts: int, hold_seconds: float = 3.0, seed: int = 1) -> Trial:
    """Cut a master off alone, with clients on its side that know nobody else."""
    trial = Trial(name="master cut off with its clients")
    load = Load(
        seed=seed,
        records_per_second=400,
        socket_timeout_ms=CLIENT_TIMEOUT_MS,
        stale_seconds_max=SESSION_TIMEOUT_MS / 1000,
    )
    names: dict[int, str] = {}
    cluster = ClusterProcess(directory, settings=QUICK_SESSIONS, advertised_host=OUTSIDE)
    ports = {port: str(peer_id) for port, peer_id in cluster.ports.items()}

    def named() -> dict[int, str]:
        nodes = {node.pid: str(peer) for peer, node in cluster.nodes.items() if node.is_running}
        return {**nodes, **names}

    with Switchboard(ports, named) as network, cluster, _sides(cluster, load, names) as sides:
        workload = Workload(cluster.bootstrap, load)
        workload.start()
        while trial.faults < cuts and wait_for_load(trial, cluster, workload):
            victim = cluster.wait_for_leader(load.topic, trial.faults % load.partitions)
            begun_ns = time.monotonic_ns()
            network.cut_off({str(victim), f"client {victim}"})
            trial.faults += 1
            trial.expect(goes_on(workload, begun_ns, (0, 1, 2)), f"no writes without {victim}")
            trial.gaps_seconds += workload.gaps_between(begun_ns, time.monotonic_ns(), (0, 1, 2))
            time.sleep(hold_seconds)
            network.cut_off(())
        workload.stop_writing()
        trial.judge(cluster, workload, *(side.finish() for side in sides))
    return trial


@contextlib.contextmanager
def _sides(
    cluster: ClusterProcess, load: Load, names: dict[int, str]
) -> Iterator[list[SideClient]]:
    """Yield one client process on the side of each node."""
    create_topic(cluster.bootstrap, load.topic, load.partitions)
    sides = []
    try:
        for broker_id in cluster.nodes:
            address = cluster.address_of(broker_id)
            file = cluster.directory / f"side-{broker_id}"
            sides.append(SideClient(address, f"side{broker_id}-", load, file))
            names[sides[-1].pid] = f"client {broker_id}"
        yield sides
    finally:
        for side in sides:
            side.kill()
