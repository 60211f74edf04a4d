"""Faults of the controllers' group: a disk that is replaced, voters that change, a metadata log
whose disk refuses.

A voter loses its disk only while every other voter has its own: the loss of two disks of three is
beyond what the group can survive. The same holds for a vote that is removed. Hosts that are also
brokers keep their disks, since these need an operator (forget-identity).
"""

import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from penstock.base.ids import PeerId, RequestId
from penstock.node.node import Node
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.status import RaftStatus
from penstock.runtime.session.messages import ChangeControllers
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault
from simulator.run.server import Server
from simulator.run.topology import CONTROLLER_PORT

Heal = Callable[[], None]

REFUSALS = (
    ("write", errno.ENOSPC),
    ("write", errno.EIO),
    ("allocate", errno.ENOSPC),
    ("create", errno.ENOSPC),
    ("rename", errno.EIO),
    ("sync", errno.EIO),
)
"""Operation on a file of the metadata log, and what it fails with."""
SPARED_MAX = 12


class VoterFaults:
    """See the module."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw
        self._changes = 0
        """Operators' changes of the voters that are under way."""

    def spare(self, servers: list[Server]) -> list[Server]:
        """Return the first of these whose disk may be lost now, if there is one."""
        if self._changes or not self._is_whole():
            return []
        return [server for server in servers if not server.host.is_broker][:1]

    def refuse(self, fault: Fault, servers: list[Server]) -> Heal | None:
        """Let an operation on the metadata log fail; the process is started again afterwards."""
        operation, error = REFUSALS[fault.amount % len(REFUSALS)]
        hit = [server for server in servers if server.is_up and server.host.is_controller]
        for server in hit:
            server.suspect_disk()
            after = self._random.randrange(SPARED_MAX)
            server.disk.fail(operation, "metadata/raft", error, times=3, after=after)

        def heal() -> None:
            for server in hit:
                server.disk.heal()
                server.trust_disk()
                if server.is_up:
                    server.restart()

        return heal if hit else None

    def change(self, fault: Fault, servers: list[Server]) -> Heal | None:
        """Take a controller's vote away; it gets it back when the fault is over."""
        if self._changes or not servers or not self._is_whole():
            return None
        peer_id, name = PeerId(servers[0].host.process_id), servers[0].name
        self._ask(fault, "remove", peer_id, "")
        return lambda: self._ask(fault, "add", peer_id, f"{name}:{CONTROLLER_PORT}")

    def _ask(self, fault: Fault, action: str, peer_id: PeerId, address: str) -> None:
        def request(request_id: int) -> ChangeControllers:
            return ChangeControllers(
                request_id=RequestId(request_id), action=action, peer_id=peer_id, address=address
            )

        def work(node: Node) -> Coroutine[Any, Any, None]:
            async def operate() -> None:
                assert node.sessions is not None
                self._changes += 1
                try:
                    await node.sessions.commands.operate(request)
                finally:
                    self._changes -= 1

            return operate()

        self._cluster.ask(f"{fault.kind} {action}", work)

    def _is_whole(self) -> bool:
        """Whether every controller runs, votes with the disk it has, and nothing is open."""
        active = self._cluster.hosts(("active",))
        status = _status(self._cluster.servers[active[0]]) if active else None
        if status is None or status.commit_index != status.last_index:
            return False
        voting = {peer.peer_id: peer.directory_id for peer in status.peers if peer.is_voter}
        controllers = [
            server for server in self._cluster.servers.values() if server.host.is_controller
        ]
        statuses = {
            PeerId(controller.host.process_id): _status(controller) for controller in controllers
        }
        return len(voting) == len(controllers) and all(
            one is not None and voting.get(peer_id) == one.own_directory_id
            for peer_id, one in statuses.items()
        )


def _status(server: Server) -> RaftStatus | None:
    node = server.node
    if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
        return None
    return node.plane.log.status()
