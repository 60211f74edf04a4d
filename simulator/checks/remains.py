"""Check: when a run is idle at its end, every file on the disks has a reason.

    every broker knows of every topic that was deleted
    run two retention passes of every log, then a snapshot; have extent files shrunk ─► check

Every file of a log has a reason (storage/commit_log/files.py), and a segment file is part of the
log that is open, allocated ahead for it, or a spare. A closed segment is kept only because an
existing partition needs it, which the log's pins name (storage/commit_log/pins.py).

Of every extent file half is needed, but for a 256th of a segment: else it is written anew (ADR
0130). Not judged are files that cleaning has made, and logs whose last job has failed.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from penstock.controller.metadata.image import ClusterImage
from penstock.extents.layout import FILE_BYTES_MIN
from penstock.node.layout import ReplicaSetPlace
from penstock.node.node import Node
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.files import Reason, explain_files
from penstock.storage.commit_log.pins import Pin
from penstock.storage.commit_log.segments import segment_path
from penstock.storage.second_level.held_files import file_bytes_of
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.shrinking import least_bytes
from simulator.run.server import Server
from simulator.run.topology import data_path

PASSES = 2
"""The first pass finds unneeded segments, and by the second they are deleted."""


class Remains:
    """See the module."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._servers = [*servers]
        self._logs = [(server, member) for server in self._servers for member in _members(server)]
        self._wanted: dict[int, int] = {}
        """Passes after which a log is looked at, counted once no broker's image is behind."""
        self._asked: set[int] = set()
        """Logs of which a snapshot was requested."""
        self._taken: set[int] = set()

    def hurry(self) -> bool:
        """Ask for a pass or a snapshot where one is missing; returns whether some are."""
        if not self._wanted:
            if len({*map(_applied_index, self._servers)} - {None}) > 1:
                return True
            self._wanted = {id(one): one.log.pins.number + PASSES for _, one in self._logs}
        missing = [
            server for server, one in self._logs if one.log.pins.number < self._wanted[id(one)]
        ]
        for server in dict.fromkeys(missing):
            node, process = server.node, server.process
            if isinstance(node, Node) and process is not None:
                process.call_soon(node.housekeeping.apply_retention)
        if missing:
            return True
        for server, one in self._logs:
            if id(one) not in self._asked and server.process is not None:
                self._asked.add(id(one))
                server.process.call_soon(partial(self._snapshot, one))
        if len(self._taken) < len(self._logs):
            return True
        # A pass may be due to a file that was taken over just now, and its deletions under way.
        return any(_wasteful(server, one) or _is_leaking(server, one) for server, one in self._logs)

    def _snapshot(self, member: ReplicaSetMember) -> None:
        member.log.checkpoint(lambda _: self._taken.add(id(member)))

    def findings(self, image: ClusterImage) -> Iterator[str]:
        """Name what belongs to nothing."""
        for server, member in self._logs:
            if not _is_judged(server, member):
                continue
            name = f"{server.name}: set {member.replica_set_id}"
            for path in sorted(_leaked(server, member)):
                yield f"{name}: {path} belongs to nothing"
            for text in (*_unexplained(member, image), *_wasteful(server, member)):
                yield f"{name}: {text}"


def _applied_index(server: Server) -> int | None:
    """Return how much of the metadata log a server's image has; None while it is down."""
    node = server.node
    if not isinstance(node, Node) or not node.plane.is_open:
        return None
    return node.plane.log.applied_index


def _members(server: Server) -> list[ReplicaSetMember]:
    node = server.node
    if not isinstance(node, Node) or node.manager is None:
        return []
    return list(node.manager.members.values())


def _is_judged(server: Server, member: ReplicaSetMember) -> bool:
    return not (server.is_disk_damaged or member.log.is_fenced)


def _is_leaking(server: Server, member: ReplicaSetMember) -> bool:
    return _is_judged(server, member) and bool(_leaked(server, member))


def _leaked(server: Server, member: ReplicaSetMember) -> set[str]:
    place = ReplicaSetPlace(member.replica_set_id, data_path(server.host)).name
    store = member.log.parts.store
    known = {segment.path for segment in (*store.segments, *store.closing)}
    known.add(segment_path(place, store.active.end))
    there = {
        path
        for path in server.disk.names
        if path.startswith(f"{place}/log/") and path.endswith(".log")
    }
    explained = explain_files(server.disk, place)
    return (there - known) | {path for path, why in explained.items() if why is Reason.LEAKED}


def _wasteful(server: Server, member: ReplicaSetMember) -> list[str]:
    """Return what is wrong with extent files of which less than half is needed."""
    splits = server.node.housekeeping.splits if isinstance(server.node, Node) else None
    log, set_id = member.log, member.replica_set_id
    if splits is None or log.is_busy or log.is_fenced or set_id in splits.shrinkings.failing:
        return []
    second, place = log.parts.second_level, ReplicaSetPlace(set_id, data_path(server.host)).name
    found = []
    for number in (file.number for file in second._manifest.files):  # noqa: SLF001
        held = [one for _, one in second._held.in_file(number) if one is not None]  # noqa: SLF001
        needed = sum(file_bytes_of(one.entry) for one in held)
        inode = server.disk.names.get(extent_path(place, number))
        size = 0 if inode is None else len(inode.data)
        is_cleaned = any(one.is_rewritten for one in held) or number in second.damage.files
        if size > 2 * needed + least_bytes(log.config) + FILE_BYTES_MIN and not is_cleaned:
            found.append(f"extent file {number} has {size} bytes, of which {needed} are needed")
    return found


def _unexplained(member: ReplicaSetMember, image: ClusterImage) -> Iterator[str]:
    topics = {topic.topic_id for topic in image.topics_by_name.values()}
    for segment in member.log.pins.segments:
        if segment.pin is Pin.UNREAD:
            yield f"segment {segment.base} can not be read"
        is_named = segment.partition_count > len(segment.partitions) or any(
            partition.topic_id in topics for partition in segment.partitions
        )
        if segment.pin is Pin.PARTITIONS and not is_named:
            yield f"segment {segment.base} is kept for {segment.partitions}, which are no more"
