"""Offsets and masterships of a log, read from the files of a simulated disk.

    frame by frame up to a position ─► each partition: (end of a batch, offset behind it), ascending
                                       each mastership: (leader epoch, where it begins)

The log's own index is not used. Positions before the first existing frame are unknown: the answer
is None.

Source: docs/formats (frames, batches).
"""

from bisect import bisect_right
from collections import defaultdict
from struct import Struct
from typing import NamedTuple

from penstock.base.ids import ReplicaSetId
from penstock.frames.frames import FRAME_HEADER_BYTES, HEADER, KIND_BATCH
from penstock.node.layout import ReplicaSetPlace
from penstock.replica.replica_set import ReplicaSetMember
from simulator.checks.confirmed import SegmentFiles
from simulator.run.server import Server
from simulator.run.topology import data_path

Key = tuple[int, bytes]
"""Partition and topic id."""

_KIND, _PARTITION, _TOPIC = 3, 8, 9
_BASE_OFFSET, _LAST_DELTA = Struct(">q"), Struct(">i")
_LAST_DELTA_AT = 23
"""Within a batch."""


class EpochEnd(NamedTuple):
    """The largest mastership at or below a requested one, and its end in a partition."""

    leader_epoch: int
    end_offset: int


class Ends:
    """What the files of one member's log say, as far as they were read."""

    def __init__(self, files: SegmentFiles, start: int) -> None:
        """Begin at `start`, the first position that the member has."""
        self._files = files
        self._start = self.position = start
        self._positions: dict[Key, list[int]] = defaultdict(list)
        self._offsets: dict[Key, list[int]] = defaultdict(list)
        self.epochs: list[tuple[int, int]] = []

    def read_to(self, position: int) -> bool:
        """Read on; returns whether everything below `position` is known now."""
        while self.position < position:
            frame = self._files.frame_at(self.position)
            if frame is None:
                return False
            if frame.data:
                self._note(frame.position, frame.end, frame.data, frame.epoch)
            self.position = frame.end
        return True

    def _note(self, position: int, end: int, data: bytes, epoch: int) -> None:
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, position))
        header = HEADER.unpack_from(data)
        if header[_KIND] == KIND_BATCH:
            key = (header[_PARTITION], header[_TOPIC])
            (base,) = _BASE_OFFSET.unpack_from(data, FRAME_HEADER_BYTES)
            (last,) = _LAST_DELTA.unpack_from(data, FRAME_HEADER_BYTES + _LAST_DELTA_AT)
            self._positions[key].append(end)
            self._offsets[key].append(base + last + 1)

    def end_of(self, key: Key, position: int) -> int | None:
        """Return the offset behind the partition's last batch that ends at or below `position`."""
        if not self.read_to(position) or key not in self._positions:
            return None
        at = bisect_right(self._positions[key], position)
        if at:
            return self._offsets[key][at - 1]
        return 0 if self._start == 0 else None

    def epoch_end(self, key: Key, leader_epoch: int) -> EpochEnd | None:
        """Return where a mastership that is over ended, of what was read so far."""
        at = bisect_right(self.epochs, (leader_epoch, self.position))
        if self._start or not 0 < at < len(self.epochs):
            return None
        end = self.end_of(key, self.epochs[at][1])
        return None if end is None else EpochEnd(self.epochs[at - 1][0], end)

    def written_epoch(self, key: Key, found: EpochEnd) -> int | None:
        """Return the mastership that wrote the last batch below an end; None if there is none.

        It is an older one than that of `found` where that wrote nothing to the partition.
        """
        at = bisect_right(self.epochs, (found.leader_epoch, self.position))
        while at and self.end_of(key, self.epochs[at - 1][1]) == found.end_offset:
            at -= 1
        return self.epochs[at - 1][0] if at else None


class PartitionEnds:
    """The logs of all members of a run."""

    def __init__(self) -> None:
        self._known: dict[int, Ends] = {}
        """By identity of the member."""
        self._members: dict[int, ReplicaSetMember] = {}
        """Kept, so that an identity stays one."""

    def of(self, server: Server, member: ReplicaSetMember) -> Ends:
        """Return what the member's files say; a log that was cut or copied is read anew."""
        if id(member) not in self._members:
            self._members[id(member)] = member
            member.on_reopened.append(self._forget)
        ends = self._known.get(id(member))
        if ends is None or ends.position > member.log.end_position:
            place = ReplicaSetPlace(ReplicaSetId(member.replica_set_id), data_path(server.host))
            ends = Ends(SegmentFiles(server.disk, place.name), member.log.start_position)
            self._known[id(member)] = ends
        return ends

    def _forget(self, member: ReplicaSetMember) -> None:
        self._known.pop(id(member), None)
