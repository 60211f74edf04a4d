"""Faults of clocks: a wrong wall clock, a machine that is suspended."""

from collections.abc import Callable, Mapping

from simulator.kernel.process import Process
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind
from simulator.run.server import Server

Heal = Callable[[], None]


class ClockFaults:
    """See the module, and doing.py."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def kinds(self) -> Mapping[FaultKind, Callable[[Fault], Heal | None]]:
        """Return what begins each kind of fault."""
        return {FaultKind.SUSPEND: self._suspend, FaultKind.CLOCK_STEP: self._step}

    def _suspend(self, fault: Fault) -> Heal | None:
        """Like SIGSTOP, but the process can not see by its monotonic clock that time has passed."""
        hit: list[tuple[Server, Process]] = []
        for server in self._cluster.servers_of(fault.targets):
            process = server.process
            if process is not None and process.is_alive and not process.is_paused:
                process.pause()
                hit.append((server, process))
        begun_s = self._cluster.simulation.now_s

        def heal() -> None:
            for server, process in hit:
                if process.is_alive and process.is_paused:
                    server.time.suspended_s += self._cluster.simulation.now_s - begun_s
                    process.resume()
                    server.woken_s.append(self._cluster.simulation.loop.time())

        return heal if hit else None

    def _step(self, fault: Fault) -> Heal | None:
        servers = self._cluster.servers_of(fault.targets)
        for server in servers:
            server.time.wall_offset_ms += fault.amount

        def heal() -> None:
            for server in servers:
                server.time.wall_offset_ms -= fault.amount

        return heal if servers else None
