"""How each fault of a plan is done to a cluster, and undone.

    begin(fault) ─► heal()        or None: it hit nothing, and does not count

Faults overlap: each takes back what it has done itself and nothing else. A server that was killed
twice is started by whichever of the two ends last, a link is whole when the last cut is gone.
"""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from penstock.controller.image import NO_MASTER
from penstock.controller.session import ElectRequest, TransferRequest
from penstock.node.node import Node
from penstock.sim.cluster import SimCluster
from penstock.sim.plan import Fault, FaultKind
from penstock.sim.server import Server
from penstock.sim.weather import Effect, Pair, pairs

Heal = Callable[[], None]

RESET_SECONDS = (0.05, 0.4)
RESET_SHARE = 0.7
FREE_BYTES_MAX = 40_000
"""What a disk that is full still takes, at most."""


class Faults:
    """See the module."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw
        self._down: dict[str, int] = {}
        """Host -> faults that want it to be down."""
        self._resetting: list[asyncio.Task[None]] = []
        self._kinds: dict[FaultKind, Callable[[Fault], Heal | None]] = {
            FaultKind.KILL: self._kill,
            FaultKind.POWER_OFF: self._power_off,
            FaultKind.PAUSE: self._pause,
            FaultKind.PARTITION: self._partition,
            FaultKind.ONE_WAY: self._one_way,
            FaultKind.RING: self._ring,
            FaultKind.LOSS: self._loss,
            FaultKind.LATENCY: self._latency,
            FaultKind.RESETS: self._resets,
            FaultKind.SLOW_SYNC: self._slow_sync,
            FaultKind.LYING_SYNC: self._lying_sync,
            FaultKind.SYNC_ERROR: self._sync_error,
            FaultKind.DISK_FULL: self._disk_full,
            FaultKind.BIT_FLIP: self._bit_flip,
            FaultKind.TRANSFER: self._transfer,
            FaultKind.ELECT: self._elect,
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
        for task in self._resetting:
            task.cancel()
        self._down.clear()
        for server in self._cluster.servers.values():
            was_suspect = server.is_disk_suspect
            server.disk.heal()
            if server.process is not None and server.is_paused:
                server.process.resume()
            if was_suspect:
                server.restart()
            server.start()
            server.is_disk_suspect = False

    # --- processes -----------------------------------------------------------------------------

    def _servers(self, fault: Fault) -> list[Server]:
        return [self._cluster.servers[host] for host in self._cluster.hosts(fault.targets)]

    def _kill(self, fault: Fault) -> Heal | None:
        return self._take_down(self._servers(fault), Server.kill)

    def _power_off(self, fault: Fault) -> Heal | None:
        return self._take_down(self._servers(fault), Server.power_off)

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

    # --- disks ---------------------------------------------------------------------------------

    def _slow_sync(self, fault: Fault) -> Heal | None:
        servers = self._servers(fault)
        for server in servers:
            server.disk.sync_delay_ms += fault.amount

        def heal() -> None:
            for server in servers:
                server.disk.sync_delay_ms = max(0.0, server.disk.sync_delay_ms - fault.amount)

        return heal if servers else None

    def _lying_sync(self, fault: Fault) -> Heal | None:
        """The lie ends with the power; the host comes up a moment later.

        It is about the logs of sets. A voter of the controllers whose own log has lost what was
        durable refuses to start, as it must not vote again (ADR 0020): a person has to act.
        """
        servers = [server for server in self._servers(fault) if self._has_peers_in_step(server)]
        for server in servers:
            server.disk.is_lying = server.is_disk_damaged = True
            server.disk.lying_part = "set-"

        def heal() -> None:
            for server in servers:
                server.power_off()
                server.disk.is_lying = False
                server.start()

        return heal if servers else None

    def _sync_error(self, fault: Fault) -> Heal | None:
        """A log whose sync has failed takes part in nothing until its process is started again."""
        servers = [server for server in self._servers(fault) if server.is_up]
        for server in servers:
            server.is_disk_suspect = True
            server.disk.fail("sync", "", errno.EIO)

        def heal() -> None:
            for server in servers:
                server.disk.heal()
                if server.is_up:
                    server.restart()
                server.is_disk_suspect = False

        return heal if servers else None

    def _disk_full(self, fault: Fault) -> Heal | None:
        servers = self._servers(fault)
        for server in servers:
            server.is_disk_suspect = True
            server.disk.fill(self._random.randrange(FREE_BYTES_MAX))

        def heal() -> None:
            for server in servers:
                server.disk.heal()
                server.is_disk_suspect = False

        return heal if servers else None

    def _bit_flip(self, fault: Fault) -> Heal | None:
        """Flip a bit of a commit log while the process is down, and start it again."""
        hit = []
        for server in filter(self._has_peers_in_step, self._servers(fault)):
            files = [(name, one) for name, one in server.disk.names.items() if "/log/" in name]
            files = [(name, one) for name, one in files if any(one.data)]
            if not files:
                continue
            server.kill()
            name, inode = self._random.choice(files)
            used = len(inode.data.rstrip(b"\0"))
            server.is_disk_damaged = True
            server.disk.flip_bit(name, self._random.randrange(used), self._random.randrange(8))
            hit.append(server)

        def heal() -> None:
            for server in hit:
                server.start()

        return heal if hit else None

    def _has_peers_in_step(self, server: Server) -> bool:
        """Whether it is up, and whatever it loses is with another one."""
        image = self._cluster.newest_image()
        return (
            server.is_up
            and image is not None
            and all(
                len(one.sync_state_set) == len(one.replicas) for one in image.replica_sets.values()
            )
        )

    # --- operators -----------------------------------------------------------------------------

    def _transfer(self, fault: Fault) -> Heal | None:
        def request(set_id: int, request_id: int) -> TransferRequest:
            target = self._successor(set_id)
            return TransferRequest(request_id=request_id, replica_set_id=set_id, target=target)

        return self._operate(fault, request)

    def _successor(self, set_id: int) -> int:
        """Return a member that does not lead."""
        image = self._cluster.newest_image()
        one = None if image is None else image.replica_sets.get(set_id)
        slaves = [] if one is None else [each for each in one.replicas if each != one.master]
        return self._random.choice(slaves) if slaves else NO_MASTER

    def _elect(self, fault: Fault) -> Heal | None:
        def request(set_id: int, request_id: int) -> ElectRequest:
            return ElectRequest(request_id=request_id, replica_set_id=set_id)

        return self._operate(fault, request)

    def _operate(
        self, fault: Fault, request: Callable[[int, int], TransferRequest | ElectRequest]
    ) -> Heal | None:
        set_ids = self._cluster.set_ids()
        if not set_ids:
            return None
        set_id = set_ids[fault.amount % len(set_ids)]

        def work(node: Node) -> Coroutine[Any, Any, object]:
            assert node.sessions is not None
            return node.sessions.operate(lambda request_id: request(set_id, request_id))

        return _nothing if self._cluster.ask(fault.kind, work) else None


def _cancel(task: asyncio.Task[None]) -> Heal:
    def heal() -> None:
        task.cancel()

    return heal


def _nothing() -> None:
    """End what has ended by itself."""
