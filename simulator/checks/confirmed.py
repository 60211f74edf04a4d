"""Check: confirmed bytes of a replica set never change, and are the same on all members.

    one record for each set     position -> (end position, hash of the frame)
    one walker for each member  reads on from its last position to the member's confirm position

Each frame is compared as soon as a member reports it as confirmed; the first member adds it to the
record. A member that restarts is compared from the beginning, since its disk may have lost data.

It reads the files of the simulated disk and not the log, so that checking has no side effects.
Unconfirmed bytes, in which replicas may differ, are not checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.frames.frames import FRAME_HEADER_BYTES, HEADER, KIND_END
from simulator.kernel.disk import SimDisk
from simulator.kernel.inode import Inode

_KIND, _FRAME_BYTES, _EPOCH, _POSITION = 3, 4, 5, 6


@dataclass(slots=True)
class ConfirmedLog:
    """The confirmed frames of one set, up to the highest confirm position of any member."""

    replica_set_id: int
    frames: dict[int, tuple[int, int]] = field(default_factory=dict)
    end: int = 0
    by_masters: int = 0
    """The highest confirm position that a master has named."""


class Frame(NamedTuple):
    """One frame of a log, as in its file; without bytes at the end of a segment."""

    position: int
    end: int
    """Where the next one begins."""
    data: bytes
    epoch: int


class SegmentFiles:
    """The segment files of one log on a simulated disk, read independently of the log."""

    def __init__(self, disk: SimDisk, directory: str) -> None:
        self._disk = disk
        self._written = _Finder(f"{directory}/log/")
        self._durable = _Finder(f"{directory}/log/")

    def frame_at(self, position: int) -> Frame | None:
        """Return the frame there, or None where no segment or no frame is."""
        found = self._written.find(self._disk.names, position)
        if found is None:
            return None
        base, inode = found
        content, at = inode.data, position - base
        end_of_segment = base + len(content)
        if end_of_segment - position < FRAME_HEADER_BYTES:
            return Frame(position, end_of_segment, b"", -1)
        header = HEADER.unpack_from(content, at)
        if header[_POSITION] != position or header[_FRAME_BYTES] < FRAME_HEADER_BYTES:
            return None  # zeros have the position 0 too
        end = position + header[_FRAME_BYTES]
        data = bytes(content[at : end - base])
        following = end_of_segment if header[_KIND] == KIND_END else end
        return Frame(position, following, data, header[_EPOCH])

    def has(self, position: int) -> bool:
        """Whether a segment has the position."""
        return self._written.find(self._disk.names, position) is not None

    def is_durable(self, position: int, data: bytes) -> bool:
        """Whether these bytes outlive a loss of power there, or lie before all that there is."""
        durable = self._disk.files.durable
        found = self._durable.find(durable, position)
        if found is None:
            return self._durable.first(durable) > position
        base, inode = found
        at = position - base
        return inode.durable[at : at + len(data)] == data


class _Finder:
    """Finds the segment of a position; close positions mostly need no search."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._last = ("", -1, Inode(""))
        self._count = 0

    def find(self, names: Mapping[str, Inode], position: int) -> tuple[int, Inode] | None:
        """Return base and file; of two that would have it, the later one has its frames."""
        path, base, inode = self._last
        is_same = names.get(path) is inode and len(names) == self._count
        if is_same and base <= position < base + len(inode.data):
            return base, inode
        self._last, self._count = ("", -1, Inode("")), len(names)
        for path, inode in names.items():
            base = self._base(path)
            if self._last[1] < base <= position < base + len(inode.data):
                self._last = path, base, inode
        return None if self._last[1] < 0 else self._last[1:]

    def first(self, names: Mapping[str, Inode]) -> int:
        """Return where the first segment begins; -1 where there is none."""
        return min((base for path in names if (base := self._base(path)) >= 0), default=-1)

    def _base(self, path: str) -> int:
        is_segment = path.startswith(self._prefix) and path.endswith(".log")
        return int(path[len(self._prefix) : -len(".log")]) if is_segment else -1


class Walker:
    """One member's log, compared with what is known of its set."""

    def __init__(self, known: ConfirmedLog, disk: SimDisk, directory: str, start: int) -> None:
        """Begin at `start`, the first position that the member has."""
        self.position = start
        self._known = known
        self._files = SegmentFiles(disk, directory)
        self._last_epoch = -1

    def advance(self, confirmed: int) -> str:
        """Compare up to `confirmed` (exclusive); returns what is wrong, or nothing."""
        while self.position < confirmed:
            wrong = self._step(confirmed)
            if wrong:
                return wrong
        return ""

    def _step(self, confirmed: int) -> str:
        frame = self._files.frame_at(self.position)
        if frame is None:
            kind = "frame" if self._files.has(self.position) else "segment"
            return f"no {kind} has position {self.position}, below {confirmed}"
        wrong = self._compare(frame) if frame.data else ""
        self.position = frame.end
        return wrong

    def _compare(self, frame: Frame) -> str:
        if frame.epoch < self._last_epoch:
            return f"epoch {frame.epoch} after {self._last_epoch} at {frame.position}"
        self._last_epoch = frame.epoch
        known, whole = self._known, (frame.position + len(frame.data), hash(frame.data))
        first = known.frames.setdefault(frame.position, whole)
        if first != whole:
            return f"the confirmed frame at {frame.position} is another one"
        known.end = max(known.end, whole[0])
        return ""
