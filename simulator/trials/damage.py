"""Tests starts after damage: one bit of a log is flipped, or one of its files is missing.

    copy of the disk ─► kill ─► start, which tells what is durable ─► kill ─► damage ─► start

    damaged                       required
    segment                       refused; or it starts with the same end, and reads of the place
                                  fail or return what was written
    index, side file, mark, note  rebuilt: the state is as before
    snapshot                      an older one, or the whole log, gives the same state; or refused,
                                  if retention has deleted segments that the older one needs
    metadata log, its snapshot    refused: a vote may be lost with it
    commit mark, end mark         ignored

Source: docs/adr/0020; docs/formats/commit-log.md, first table; docs/formats/raft-log.md.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId, Position, TopicId, TopicPartition
from penstock.frames.frames import KIND_BATCH
from penstock.node.layout import METADATA_DIRECTORY
from penstock.record.batch import read_header
from penstock.runtime.raft.log_file import read_file
from penstock.storage.errors import CorruptLog
from penstock.storage.recover.scan import SegmentScan
from simulator.kernel.disk import SimDisk
from simulator.trials.logs import Known, differences, wrong_read
from simulator.trials.raft import LOG, SNAPSHOT, View, is_alike, open_raft, view_of
from simulator.trials.still_log import Facts, StillLog

LOST_SHARE = 0.2
"""How often a file is gone, where not a bit is turned over."""
LAST_SHARE = 0.3
"""How often it is one of the last bytes: there rot looks like a write that was cut short."""
LAST_BYTES = 100
DERIVED = (".idx", ".side", ".snap", "/durable", "/catching-up")


STAGED = "/install/"


class Place(NamedTuple):
    """What is damaged."""

    path: str
    position: int
    """The byte; -1 where the file is gone."""

    def __str__(self) -> str:
        return f"{self.path} {'gone' if self.position < 0 else f'damaged at {self.position}'}"


class _Batch(NamedTuple):
    key: TopicPartition
    offset: int
    data: bytes


class LogDamage:
    """Damage to one commit log. Iterate `findings` once."""

    def __init__(self, known: Known, disk: SimDisk, draw: Random) -> None:
        """`disk`: the copy, which nothing has happened to yet."""
        self._known = known
        self._disk = disk
        self._random = draw

    def findings(self) -> Iterator[str]:
        """Try it, and name what is wrong."""
        try:
            before = self._start().facts()
        except (PlatformError, OSError):
            return  # logs.py says so
        place = self._choose(before.end)
        if place is None:
            return
        batch = self._batch_at(place)
        damage(self._disk, place, self._random)
        where = f"{self._known.name}, {place}"
        try:
            found = self._start()
        except (PlatformError, OSError) as error:
            if place.path.endswith(DERIVED) and not _needs_older(place, error):
                yield f"{where}: can not start: {error}"
            return
        for text in self._wrong(place, batch, before, found):
            yield f"{where}: {text}"

    def _start(self) -> StillLog:
        return StillLog(self._disk, self._known.directory, self._known.config)

    def _choose(self, end: int) -> Place | None:
        own = {path: name for path, name in self._disk.names.items() if STAGED not in path}
        sizes = {
            path: len(inode.data)
            for path, inode in own.items()
            if path.endswith(DERIVED) and inode.data
        }
        for path, inode in own.items():
            if path.endswith(".log") and (used := min(len(inode.data), end - _base(path))) > 0:
                sizes[path] = used
        return choose(sizes, self._random)

    def _batch_at(self, place: Place) -> _Batch | None:
        """Return the batch that the damage will hit."""
        if not place.path.endswith(".log") or place.position < 0:
            return None
        base = _base(place.path)
        file = self._disk.open(place.path)
        scan = SegmentScan(file, Position(base), Position(base), Position(base + file.size()))
        for header, payload in scan:
            if scan.position > base + place.position:
                if header.kind != KIND_BATCH:
                    return None
                key = TopicPartition(TopicId(header.topic_id), header.partition)
                return _Batch(key, read_header(payload).base_offset, bytes(payload))
        return None

    def _wrong(
        self, place: Place, batch: _Batch | None, before: Facts, found: StillLog
    ) -> Iterator[str]:
        after = found.facts()
        if after.end < before.end:
            yield f"ends at {after.end}, and {before.end} was durable: nobody is told"
        if place.path.endswith(".log"):
            if place.position < 0:
                yield "starts without the segment"
            elif batch is not None:
                yield from _wrong_batch(found, batch)
            return
        if place.path.endswith(".snap"):
            before, after = _kept(before, after), _kept(after, before)
        yield from differences(before, after)
        for key, partition in found.log.partitions.items():
            if partition.log_start_offset < partition.log_end_offset:
                offset = self._random.randrange(
                    partition.log_start_offset, partition.log_end_offset
                )
                yield from wrong_read(found, key, offset)


class RaftDamage:
    """Damage to the metadata log of one controller. Iterate `findings` once."""

    def __init__(self, name: str, own_id: PeerId, disk: SimDisk, draw: Random) -> None:
        """`disk`: the copy, which nothing has happened to yet."""
        self._name = name
        self._own_id = own_id
        self._disk = disk
        self._random = draw

    def findings(self) -> Iterator[str]:
        """Try it, and name what is wrong."""
        try:
            before = self._start()
        except (PlatformError, OSError):
            return  # raft.py says so
        place = choose(self._sizes(), self._random)
        if place is None:
            return
        damage(self._disk, place, self._random)
        try:
            after = self._start()
        except (PlatformError, OSError) as error:
            if place.path not in {LOG, SNAPSHOT}:
                yield f"{self._name}, {place}: can not start: {error}"
            return
        if not is_alike(before, after):
            yield f"{self._name}, {place}: starts with another state than before"
        elif place.position < 0 and place.path in {LOG, SNAPSHOT} and before.last:
            yield f"{self._name}, {place}: starts without it"

    def _start(self) -> View:
        storage = open_raft(self._disk, self._own_id)
        storage.close()
        return view_of(storage)

    def _sizes(self) -> dict[str, int]:
        sizes = {
            path: len(inode.data)
            for path, inode in self._disk.names.items()
            if path.startswith(f"{METADATA_DIRECTORY}/raft.") and inode.data
        }
        sizes[LOG] = read_file(bytes(self._disk.names[LOG].data)).end_position
        return sizes


def choose(sizes: dict[str, int], draw: Random) -> Place | None:
    """Choose a file, and a byte of it."""
    if not sizes:
        return None
    path = draw.choice(sorted(sizes))
    size = sizes[path]
    if draw.random() < LOST_SHARE:
        return Place(path, -1)
    if draw.random() < LAST_SHARE:
        return Place(path, draw.randrange(max(0, size - LAST_BYTES), size))
    return Place(path, draw.randrange(size))


def damage(disk: SimDisk, place: Place, draw: Random) -> None:
    """Do what the place says."""
    if place.position < 0:
        disk.remove(place.path)
    else:
        disk.flip_bit(place.path, place.position, draw.randrange(8))


def _base(path: str) -> int:
    return int(path[-24:-4])


def _needs_older(place: Place, error: Exception) -> bool:
    """Whether retention has taken the segment that the older snapshot goes on from."""
    return place.path.endswith(".snap") and isinstance(error, CorruptLog)


def _wrong_batch(found: StillLog, batch: _Batch) -> Iterator[str]:
    partition = found.log.partitions.get(batch.key)
    if partition is None or not partition.log_start_offset <= batch.offset:
        return
    try:
        chunk = found.read(batch.key, batch.offset)
    except PlatformError:
        return  # as it should
    if bytes(chunk.data)[: len(batch.data)] != batch.data:
        yield f"serves offset {batch.offset} of {batch.key} as other bytes than were written"


def _kept(facts: Facts, other: Facts) -> Facts:
    """Return what any snapshot tells, or the log alone: a dropped partition may be back."""
    partitions = {
        key: (0, *partition[1:3], 0, 0)
        for key, partition in facts.partitions.items()
        if key in other.partitions
    }
    return Facts(facts.end, facts.epochs[-1:], partitions, {})
