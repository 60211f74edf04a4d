"""Faults of disks: slow, full, failing, lying about syncs, damaged, lost.

Damage (a lying sync, a flipped bit) may hit any file, so a plan injects it only while the other
disks are whole. A lost disk is noticed at once: it may be lost at any time while another member in
step has all of its data.
"""

import errno
from collections.abc import Callable, Mapping
from random import Random

from penstock.base.ack_policy import PolicyKind
from penstock.node.node import Node
from simulator.faults.level_damage import LevelDamage
from simulator.kernel.disk import Fault as DiskFault
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind
from simulator.run.server import Server

Heal = Callable[[], None]

FREE_BYTES_MAX = 40_000
"""What a disk that is full still takes, at most."""
READS_FAILED_MAX = 4
SETS = "set-"
"""How the paths of replica sets begin, one directory for each."""

FULL_AT: tuple[tuple[str, str], ...] = (
    ("replace", "pending-change"),
    ("truncate", "/log/"),
    ("write", "/install/"),
    ("create", "/install/"),
    ("replace", "/snapshot/"),
    ("create", ".new"),
    ("allocate", ".new"),
    ("write", "raft.log"),
    ("write", "raft.snapshot"),
    ("create", "/index/"),
)
"""(operation, part of the path): what there is no space for."""


class DiskFaults:
    """See the module, and doing.py."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw
        self._levels = LevelDamage(cluster, draw)

    def kinds(self) -> Mapping[FaultKind, Callable[[Fault], Heal | None]]:
        """Return what begins each kind of fault."""
        return {
            FaultKind.SLOW_SYNC: self._slow_sync,
            FaultKind.LYING_SYNC: self._lying_sync,
            FaultKind.SYNC_ERROR: self._sync_error,
            FaultKind.WRITE_ERROR: self._write_error,
            FaultKind.READ_ERROR: self._read_error,
            FaultKind.DISK_FULL: self._disk_full,
            FaultKind.FULL_AT: self._full_at,
            FaultKind.BIT_FLIP: self._bit_flip,
            FaultKind.DISK_LOST: self._disk_lost,
        }

    def _slow_sync(self, fault: Fault) -> Heal | None:
        servers = self._cluster.servers_of(fault.targets)
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
        servers = [
            server
            for server in self._cluster.servers_of(fault.targets)
            if self._has_peers_in_step(server)
        ]
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
        servers = [server for server in self._cluster.servers_of(fault.targets) if server.is_up]
        for server in servers:
            server.suspect_disk()
            server.disk.fail("sync", "", errno.EIO)

        def heal() -> None:
            for server in servers:
                server.disk.heal()
                server.trust_disk()
                if server.is_up:
                    server.restart()

        return heal if servers else None

    def _disk_full(self, fault: Fault) -> Heal | None:
        servers = self._cluster.servers_of(fault.targets)
        for server in servers:
            server.suspect_disk()
            server.disk.fill(self._random.randrange(FREE_BYTES_MAX))

        def heal() -> None:
            for server in servers:
                server.disk.heal()
                server.trust_disk()

        return heal if servers else None

    def _bit_flip(self, fault: Fault) -> Heal | None:
        """Flip a bit of a log or its second level while the process is down, and start it again."""
        hit = []
        choose = self._levels.chooser(fault.amount)
        in_step = [*filter(self._has_peers_in_step, self._cluster.servers_of(fault.targets))]
        for server, spot in [(server, choose(server)) for server in in_step]:
            if spot is None:
                continue
            server.kill()
            server.is_disk_damaged = True
            server.disk.flip_bit(*spot, self._random.randrange(8))
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
                len(replica_set.sync_state_set) == len(replica_set.replicas)
                for replica_set in image.replica_sets.values()
            )
        )

    def _disk_lost(self, fault: Fault) -> Heal | None:
        """A new disk for the logs of sets; metadata is on another one."""
        hit = []
        for server in filter(self._is_replaceable, self._cluster.servers_of(fault.targets)):
            server.lose_disk(SETS)
            hit.append(server)

        def heal() -> None:
            for server in hit:
                server.start()

        return heal if hit else None

    def _is_replaceable(self, server: Server) -> bool:
        """Whether what it loses is with another one: it is in step alone in no set, nor will be.

        Under policies that let a master confirm without all others, a copy that counted is one of
        few; there all members have to be in step.
        """
        image = self._cluster.newest_image()
        if image is None or not server.host.is_broker or not server.is_up:
            return False
        if any(
            replica_set.policy.kind is not PolicyKind.ALL
            for replica_set in image.replica_sets.values()
        ):
            return self._has_peers_in_step(server)
        broker_id = server.host.process_id
        in_step = [replica_set.sync_state_set for replica_set in image.replica_sets.values()]
        return all(set(one) - {broker_id} for one in [*in_step, *_asked_for(server)])

    def _write_error(self, fault: Fault) -> Heal | None:
        return self._fail(fault, "write", after=fault.amount)

    def _read_error(self, fault: Fault) -> Heal | None:
        times = self._random.randint(1, READS_FAILED_MAX)
        for server in self._cluster.servers_of(fault.targets):
            server.disk.is_cold = True
        return self._fail(fault, "read", times=times)

    def _fail(
        self,
        fault: Fault,
        operation: str,
        *,
        times: int = 1,
        after: int = 0,
    ) -> Heal | None:
        servers = [one for one in self._cluster.servers_of(fault.targets) if one.is_up]
        begun: list[tuple[Server, DiskFault]] = []
        for server in servers:
            server.suspect_disk()
            one = server.disk.fail(operation, SETS, errno.EIO, times=times, after=after)
            begun.append((server, one))

        def heal() -> None:
            for server, one in begun:
                server.disk.forget(one)
                server.disk.is_cold = False
            for server in servers:
                server.trust_disk()
                if server.is_up:
                    server.restart()

        return heal if servers else None

    def _full_at(self, fault: Fault) -> Heal | None:
        """No space for one kind of file; writers continue by themselves afterwards."""
        operation, part = FULL_AT[fault.amount % len(FULL_AT)]
        servers = self._cluster.servers_of(fault.targets)
        begun: list[tuple[Server, DiskFault]] = []
        for server in servers:
            server.suspect_disk()
            begun.append((server, server.disk.fail(operation, part, errno.ENOSPC, times=None)))

        def heal() -> None:
            for server, one in begun:
                server.disk.forget(one)
                server.trust_disk()

        return heal if servers else None


def _asked_for(server: Server) -> list[tuple[int, ...]]:
    """Return the sync-state sets that this master wants and that may be recorded any moment."""
    manager = server.node.manager if isinstance(server.node, Node) else None
    members = [] if manager is None else manager.members.values()
    masters = [member for member in members if member.is_master]
    return [asked for master in masters for asked in master.confirm.membership.proposed]
