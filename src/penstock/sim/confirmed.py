"""What a replica set has confirmed, as bytes: it never changes, on whichever member it is seen.

    one record for each set     position -> (end position, hash of the frame)
    one walker for each member  goes on from where it was to the member's confirm position

Each frame is compared as soon as a member says that it is confirmed; whoever is first adds to the
record. A member that starts again is compared from the beginning: a disk may have lost something.

It reads the files of the simulated disk and not the log, so that looking changes nothing. Not here:
what is not confirmed yet, which replicas may differ in.
"""

from dataclasses import dataclass, field

from penstock.sim.kernel.disk import SimDisk
from penstock.storage.frames import FRAME_HEADER_BYTES, HEADER, KIND_END

_KIND, _FRAME_BYTES, _EPOCH, _POSITION = 3, 4, 5, 6


@dataclass(slots=True)
class ConfirmedLog:
    """The confirmed frames of one set, as far as anybody has said so."""

    replica_set_id: int
    frames: dict[int, tuple[int, int]] = field(default_factory=dict)
    end: int = 0
    by_masters: int = 0
    """The highest confirm position that a master has named."""


class Walker:
    """One member's log, compared with what is known of its set."""

    def __init__(self, known: ConfirmedLog, disk: SimDisk, directory: str, start: int) -> None:
        """Begin at `start`, the first position that the member has."""
        self.position = start
        self._known = known
        self._disk = disk
        self._directory = directory
        self._last_epoch = -1

    def advance(self, confirmed: int) -> str:
        """Compare up to `confirmed` (exclusive); returns what is wrong, or nothing."""
        while self.position < confirmed:
            wrong = self._step(confirmed)
            if wrong:
                return wrong
        return ""

    def _step(self, confirmed: int) -> str:
        found = self._segment()
        if found is None:
            return f"no segment has position {self.position}, below {confirmed}"
        base, content = found
        at, end_of_segment = self.position - base, base + len(content)
        if end_of_segment - self.position < FRAME_HEADER_BYTES:
            self.position = end_of_segment
            return ""
        header = HEADER.unpack_from(content, at)
        if header[_POSITION] != self.position:
            return f"no frame at {self.position}, below {confirmed}"
        end = self.position + header[_FRAME_BYTES]
        wrong = self._compare(end, hash(bytes(content[at : end - base])), header[_EPOCH])
        self.position = end_of_segment if header[_KIND] == KIND_END else end
        return wrong

    def _compare(self, end: int, digest: int, epoch: int) -> str:
        if epoch < self._last_epoch:
            return f"epoch {epoch} after {self._last_epoch} at {self.position}"
        self._last_epoch = epoch
        known = self._known
        first = known.frames.setdefault(self.position, (end, digest))
        if first != (end, digest):
            return f"the confirmed frame at {self.position} is another one"
        known.end = max(known.end, end)
        return ""

    def _segment(self) -> tuple[int, bytearray] | None:
        prefix = f"{self._directory}/log/"
        best: tuple[int, bytearray] | None = None
        for name, inode in self._disk.names.items():
            if name.startswith(prefix) and name.endswith(".log"):
                base = int(name[len(prefix) : -len(".log")])
                if base <= self.position < base + len(inode.data):
                    best = (base, inode.data)
        return best
