"""Check: bytes that a master confirms are durable on as many disks as the policy requires.

    master confirms up to P ─► each frame below P ─► on how many disks are the same bytes durable?

A copy counts if its disk would still have it after a power loss, whatever its process believes. A
disk that was damaged or replaced counts as having everything, since its process had reported
truthfully before; so does a disk under the flush policy `async`. Each frame is checked once.

Source: ADR 0009. It only reads the simulated disks.
"""

from collections.abc import Iterable

from penstock.base.ids import ReplicaSetId
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.node.layout import ReplicaSetPlace
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.confirm import Membership
from simulator.checks.confirmed import SegmentFiles
from simulator.kernel.disk import SimDisk
from simulator.run.server import Server
from simulator.run.topology import data_path


class KeptCopies:
    """See the module. One for all sets of a run."""

    def __init__(self) -> None:
        self._checked: dict[ReplicaSetId, int] = {}
        """Set -> what was looked at already (exclusive)."""
        self._files: dict[tuple[ReplicaSetId, SimDisk], SegmentFiles] = {}

    def look(self, server: Server, member: ReplicaSetMember, servers: Iterable[Server]) -> str:
        """Look at what this master has confirmed since the last time; return what is wrong."""
        set_id = member.replica_set_id
        position = self._checked.get(set_id, 0)
        confirmed = member.confirm_position
        if confirmed <= position:
            return ""
        self._checked[set_id] = confirmed
        if server.is_disk_damaged or server.disk.is_cut:
            return ""
        by_id = {one.host.process_id: one for one in servers if one.host.is_broker}
        views = _views(set_id, server, by_id.values())
        files = {broker_id: self._files_of(set_id, one) for broker_id, one in by_id.items()}
        own = files[member.own_id]
        position = max(position, member.log.start_position)
        while position < confirmed:
            frame = own.frame_at(position)
            if frame is None:
                return f"{server.name}: set {set_id} has no frame at {position}, and confirms it"
            holders = {
                broker_id
                for broker_id, one in by_id.items()
                if _may_lack_it(one) or files[broker_id].is_durable(frame.position, frame.data)
            }
            if frame.data and not any(_is_enough(view, holders) for view in views):
                return (
                    f"{server.name}: set {set_id} confirms the frame at {position} to {confirmed}, "
                    f"which is durable on {sorted(holders)} alone, in step {views[0].committed}"
                )
            position = frame.end
        return ""

    def _files_of(self, set_id: ReplicaSetId, server: Server) -> SegmentFiles:
        key = (set_id, server.disk)
        if key not in self._files:
            place = ReplicaSetPlace(set_id, data_path(server.host)).name
            self._files[key] = SegmentFiles(server.disk, place)
        return self._files[key]


def _may_lack_it(server: Server) -> bool:
    return server.is_disk_damaged or server.is_disk_lost or not server.is_durable_at_once


def _views(set_id: ReplicaSetId, server: Server, servers: Iterable[Server]) -> list[Membership]:
    """Return how the set is by the newest metadata, and by what its master knows."""
    nodes = [one.node for one in servers if isinstance(one.node, Node)]
    newest = max(nodes, key=lambda node: node.plane.log.applied_index if node.plane.is_open else -1)
    known = server.node
    assert isinstance(known, Node)
    return [
        _membership(one.image.replica_sets[set_id])
        for one in dict.fromkeys((newest, known))
        if set_id in one.image.replica_sets
    ]


def _membership(replica_set: ReplicaSetImage) -> Membership:
    return Membership(
        replicas=tuple(replica_set.replicas),
        committed=tuple(replica_set.sync_state_set),
        policy=replica_set.policy,
    )


def _is_enough(view: Membership, holders: set[int]) -> bool:
    return all(len(holders.intersection(some)) >= count for some, count in view.demands())
