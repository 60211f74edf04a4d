"""Injects each fault of a plan, and heals it.

    begin(fault) ─► heal()        or None: the fault had no target and does not count

This module has the faults of processes and of the network; those of disks, clocks and operators
have modules of their own.

Faults overlap, and each one undoes only its own effect. A server that was killed twice is started
when the second fault ends, and a link is whole when the last cut is healed.
"""

import asyncio
from collections.abc import Callable
from random import Random

from simulator.faults.clock_faults import ClockFaults
from simulator.faults.disk_faults import DiskFaults
from simulator.faults.newer_records import NewerRecords
from simulator.faults.operators import Operators
from simulator.faults.store_faults import StoreFaults
from simulator.faults.store_switches import StoreSwitches
from simulator.faults.upkeep import Upkeep
from simulator.faults.voter_faults import VoterFaults
from simulator.faults.weather import Effect, Pair, pairs
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind
from simulator.run.server import Server

Heal = Callable[[], None]

RESET_SECONDS = (0.05, 0.4)
RESET_SHARE = 0.7


class Faults:
    """See the module."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw
        self._down: dict[str, int] = {}
        """Host -> faults that want it to be down."""
        self._resetting: list[asyncio.Task[None]] = []
        self._voters = VoterFaults(cluster, draw)
        self.newer = NewerRecords(cluster)
        self._store = StoreFaults(cluster, draw)
        self.switches = StoreSwitches(cluster)
        self.operators = Operators(cluster, draw)
        self.upkeep = Upkeep(cluster)
        self._kinds: dict[FaultKind, Callable[[Fault], Heal | None]] = {
            FaultKind.KILL: self._kill,
            FaultKind.POWER_OFF: self._power_off,
            FaultKind.STOP: self._stop,
            FaultKind.PAUSE: self._pause,
            FaultKind.PARTITION: self._partition,
            FaultKind.ONE_WAY: self._one_way,
            FaultKind.RING: self._ring,
            FaultKind.LOSS: self._loss,
            FaultKind.LATENCY: self._latency,
            FaultKind.RESETS: self._resets,
            FaultKind.GARBLE: self._garble,
            FaultKind.STALE_WORDS: self._stale_words,
            **DiskFaults(cluster, draw).kinds(),
            **ClockFaults(cluster).kinds(),
            **self._store.kinds(),
            **self.switches.kinds(),
            **self.operators.kinds(),
            **self.upkeep.kinds(),
            FaultKind.DOWNGRADE: self._downgrade,
            FaultKind.VOTER_WIPED: self._voter_wiped,
            FaultKind.METADATA_DISK: lambda one: self._voters.refuse(one, self._servers(one)),
            FaultKind.CHANGE_VOTERS: lambda one: self._voters.change(one, self._servers(one)),
        }

    def begin(self, fault: Fault) -> Heal | None:
        """Do it; returns how to end it, or None when there was nothing to be hit."""
        heal = self._kinds[fault.kind](fault)
        verdict = "hits nothing" if heal is None else "begins"
        self._cluster.simulation.note(f"fault {verdict}", str(fault))
        return heal

    def heal_all(self) -> None:
        """End everything: links whole, disks sound, every server up and running."""
        self._cluster.weather.clear()
        self._store.heal_all()
        self._cluster.garbled.hosts.clear()
        self._cluster.stale.hosts.clear()
        for task in self._resetting:
            task.cancel()
        self._down.clear()
        for server in self._cluster.servers.values():
            was_suspect = server.has_disk_faults
            server.disk.heal()
            while server.has_disk_faults:
                server.trust_disk()
            server.time.wall_offset_ms = 0
            if server.process is not None and server.is_paused:
                server.process.resume()
            if was_suspect:
                server.restart()
            server.start()

    # --- processes -----------------------------------------------------------------------------

    def _servers(self, fault: Fault) -> list[Server]:
        return [self._cluster.servers[host] for host in self._cluster.hosts(fault.targets)]

    def _kill(self, fault: Fault) -> Heal | None:
        return self._take_down(self._servers(fault), Server.kill)

    def _power_off(self, fault: Fault) -> Heal | None:
        return self._take_down(self._servers(fault), Server.power_off)

    def _stop(self, fault: Fault) -> Heal | None:
        return self._take_down(self._servers(fault), Server.stop)

    def _voter_wiped(self, fault: Fault) -> Heal | None:
        spare = self._voters.spare(self._servers(fault))
        return self._take_down(spare, Server.replace_disk)

    def _downgrade(self, fault: Fault) -> Heal | None:
        """End the coordinator once it has written; what is late ends nothing."""
        ends: list[Heal] = []
        is_over = False

        def end(server: Server) -> bool:
            heal = None if is_over else self._take_down([server], Server.kill)
            if heal is not None:
                ends.append(heal)
            return heal is not None

        def heal() -> None:
            nonlocal is_over
            is_over = True
            for end in ends:
                end()

        return heal if self.newer.write(fault.amount, end) else None

    def _take_down(self, servers: list[Server], end: Callable[[Server], bool]) -> Heal | None:
        hit = [server for server in servers if server.is_up and end(server)]
        for server in hit:
            self._down[server.name] = self._down.get(server.name, 0) + 1
        return (lambda: self._bring_up(hit)) if hit else None

    def _bring_up(self, servers: list[Server]) -> None:
        for server in servers:
            left = self._down.get(server.name, 0) - 1
            self._down[server.name] = max(left, 0)
            if left <= 0:
                server.start()

    def _pause(self, fault: Fault) -> Heal | None:
        hit = []
        for server in self._servers(fault):
            process = server.process
            if process is not None and process.is_alive and not process.is_paused:
                process.pause()
                hit.append(process)

        def heal() -> None:
            for process in hit:
                if process.is_alive and process.is_paused:
                    process.resume()

        return heal if hit else None

    # --- network -------------------------------------------------------------------------------

    def _between(self, fault: Fault, *, both_ways: bool) -> tuple[Pair, ...]:
        targets = self._cluster.hosts(fault.targets)
        others = self._cluster.hosts(fault.others, but=targets)
        return pairs(targets, others, both_ways=both_ways)

    def _effect(self, effect: Effect) -> Heal | None:
        if not effect.pairs:
            return None
        weather = self._cluster.weather
        weather.add(effect)
        return lambda: weather.remove(effect)

    def _partition(self, fault: Fault) -> Heal | None:
        return self._effect(Effect(pairs=self._between(fault, both_ways=True), is_cut=True))

    def _one_way(self, fault: Fault) -> Heal | None:
        return self._effect(Effect(pairs=self._between(fault, both_ways=False), is_cut=True))

    def _ring(self, fault: Fault) -> Heal | None:
        hosts = self._cluster.hosts(fault.targets)
        heard = len(hosts) // 2 + 1
        cut = [
            (hosts[(at + step) % len(hosts)], host)
            for at, host in enumerate(hosts)
            for step in range(heard, len(hosts))
        ]
        return self._effect(Effect(pairs=tuple(cut), is_cut=True))

    def _loss(self, fault: Fault) -> Heal | None:
        both = self._between(fault, both_ways=True)
        return self._effect(Effect(pairs=both, loss=fault.amount / 100))

    def _latency(self, fault: Fault) -> Heal | None:
        both = self._between(fault, both_ways=True)
        return self._effect(Effect(pairs=both, latency_s=fault.amount / 1_000))

    def _garble(self, fault: Fault) -> Heal | None:
        return self._wrong_for_a_while(fault, self._cluster.garbled.hosts)

    def _stale_words(self, fault: Fault) -> Heal | None:
        return self._wrong_for_a_while(fault, self._cluster.stale.hosts)

    def _wrong_for_a_while(self, fault: Fault, wrong: list[str]) -> Heal | None:
        hosts = self._cluster.hosts(fault.targets)
        wrong.extend(hosts)

        def heal() -> None:
            for host in hosts:
                if host in wrong:
                    wrong.remove(host)

        return heal if hosts else None

    def _resets(self, fault: Fault) -> Heal | None:
        links = self._between(fault, both_ways=False)
        if not links:
            return None

        async def reset() -> None:
            while True:
                for source, target in links:
                    self._cluster.simulation.network.reset(source, target, RESET_SHARE)
                await asyncio.sleep(self._random.uniform(*RESET_SECONDS))

        task = asyncio.get_running_loop().create_task(reset())
        self._resetting.append(task)
        return _cancel(task)


def _cancel(task: asyncio.Task[None]) -> Heal:
    def heal() -> None:
        task.cancel()

    return heal
