"""Which byte of a disk a flipped bit hits, by the amount of the fault: each is repaired otherwise.

0              any of a log or its second level     by what replication and repairs there are
SECOND_LEVEL   any of an extent file                written anew with the batches of others
CLEANED        of a range that was cleaned          the range is taken from another member
COPIED         the same batch on each disk, which   what no member's extents have comes from the
               the object store has, too            tier; the rest from other members
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from penstock.node.node import Node
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.manifest import extent_path
from penstock.tier.metadata.manifest import Manifest
from penstock.tier.read.reader import TierReader
from simulator.kernel.distant_store import at_once
from simulator.kernel.object_store import ModelledStore
from simulator.run.cluster import SimCluster
from simulator.run.server import Server
from simulator.run.topology import TOPIC

SECOND_LEVEL, CLEANED, COPIED = 1, 2, 3
EXTENTS = ".extents"
READ_BYTES = 1 << 20


class Spot(NamedTuple):
    """A byte of a file on a disk."""

    path: str
    position: int


Choose = Callable[[Server], Spot | None]


class LevelDamage:
    """See the module."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw

    def chooser(self, amount: int) -> Choose:
        """Return what chooses the byte on each disk that is hit."""
        if amount == CLEANED:
            return self._cleaned
        if amount == COPIED:
            batch = self._copied_batch()  # without one there is nothing to repair it with
            return lambda server: None if batch is None else _place_of(server, batch)
        return lambda server: self._any(server, EXTENTS if amount else "")

    def _any(self, server: Server, wanted: str) -> Spot | None:
        files = [(name, one) for name, one in server.disk.names.items() if _is_data(name)]
        files = [(name, one) for name, one in files if any(one.data)]
        files = [(name, one) for name, one in files if name.endswith(wanted)] or files
        if not files:
            return None
        name, inode = self._random.choice(files)
        return Spot(name, self._random.randrange(len(inode.data.rstrip(b"\0"))))

    def _cleaned(self, server: Server) -> Spot | None:
        """Choose a byte of the batches of a range that a cleaner has rewritten."""
        found = [(path, one) for path, one in _extents(server) if one.is_rewritten]
        found = [(path, one) for path, one in found if one.entry.extent_bytes]
        if not found:
            return None
        path, extent = self._random.choice(found)
        entry = extent.entry
        return Spot(path, entry.extent_at + self._random.randrange(entry.extent_bytes))

    def _copied_batch(self) -> bytes | None:
        """Choose a batch of the history's topic that the tier has."""
        image, store = self._cluster.newest_image(), self._cluster.store
        topic = None if image is None else image.topics_by_name.get(TOPIC)
        runs = [
            (key, snapshot, run)
            for key, snapshot in sorted(store.told.items())
            for run in snapshot.runs
            if topic is not None and key.topic_id == topic.topic_id
        ]
        sound = [one for one in runs if str(one[2].name) not in store.damaged]
        if not sound:
            return None
        key, snapshot, run = self._random.choice(sound)
        reader = TierReader(ModelledStore(store.bucket))
        first = max(run.first_offset, snapshot.start_offset)
        found = at_once(reader.read(Manifest(snapshot), key, first, READ_BYTES))
        return bytes(self._random.choice(found.batches))


def _extents(server: Server) -> list[tuple[str, Extent]]:
    """Return the extents of all logs of a server, and the files that have them."""
    manager = server.node.manager if isinstance(server.node, Node) else None
    logs = [] if manager is None else [one.log for one in manager.members.values()]
    return [
        (extent_path(log.directory, extent.file_number), extent)
        for log in logs
        if not log.is_busy and not log.is_fenced
        for key in log.partitions
        for extent in log.splitting.extents(key)
    ]


def _place_of(server: Server, batch: bytes) -> Spot | None:
    """Return the middle of a batch in an extent file of a disk."""
    for name, inode in server.disk.names.items():
        at = bytes(inode.data).find(batch) if name.endswith(EXTENTS) else -1
        if at >= 0:
            return Spot(name, at + len(batch) // 2)
    return None


def _is_data(name: str) -> bool:
    """Whether a file has what can be had from another member only, or names such files."""
    return "/log/" in name or ("/second/" in name and not name.endswith(".tmp"))
