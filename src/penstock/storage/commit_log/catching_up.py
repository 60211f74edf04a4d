"""A note on disk: the log is catching up, so its frames do not prove what was flushed here.

    <directory>/catching-up    24 bytes, big-endian: magic "PSCU", version u16, 2 zero,
                               position i64, crc32c u32 of the 16 before, 4 zero

A frame claims how far the master had flushed its log when it was appended, and recovery relies on
that claim. A slave that copies an old part of the log would therefore have to sync once for every
sync that the master made. Instead it first writes this note, durably: claims of frames at or above
`position` prove nothing. Once the log is flushed beyond all of these frames, their claims are true,
and the note is removed.

Source: ours; the evidence rule is in ADR 0002. It never lets damage below a snapshot pass.
"""

from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from penstock.base.ids import Position
from penstock.base.ports import Disk, Offload
from penstock.frames.claim import EVERYWHERE

NOTE = Struct(">4sH2xq")
CRC = Struct(">I4x")
MAGIC = b"PSCU"
VERSION = 1
CALM_RUNS = 16
"""After this many consecutive runs that need at most one sync, the log counts as caught up."""


def note_path(directory: str) -> str:
    """Return the path of the note."""
    return f"{directory}/catching-up"


def encode_note(position: Position) -> bytes:
    """Return the note that claims from `position` on prove nothing."""
    head = NOTE.pack(MAGIC, VERSION, position)
    return head + CRC.pack(crc32c(head))


def read_note(disk: Disk, directory: str, on_damaged: Callable[[str], None]) -> Position:
    """Return the position from which on claims prove nothing: EVERYWHERE without a note.

    A damaged note counts as position 0 and is reported to `on_damaged`.
    """
    path = note_path(directory)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return EVERYWHERE
    try:
        data = file.read(0, NOTE.size + CRC.size)
    finally:
        file.close()
    if len(data) == NOTE.size + CRC.size:
        magic, version, position = NOTE.unpack_from(data)
        (crc,) = CRC.unpack_from(data, NOTE.size)
        if magic == MAGIC and version == VERSION and crc == crc32c(data[: NOTE.size]):
            return Position(position)
    on_damaged(f"{path} is damaged: it counts as a note of position 0")
    return Position(0)


class CatchingUp:
    """Whether a slave is catching up, and the note about it. Used on the loop only."""

    def __init__(
        self, disk: Disk, directory: str, offload: Offload, on_changed: Callable[[], None]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._offload = offload
        self._on_changed = on_changed
        self._is_noted = False
        self._is_changing = False
        self._is_wanted = False
        """Whether the log still follows since it last began to catch up."""
        self._end = Position(0)
        self._calm_runs = 0
        self.trusts_claims = True
        """Whether a frame's claim must be true here before the frame is written."""

    def begin(self, position: Position) -> None:
        """Catch up from `position` on; `on_changed` is called when the note is written."""
        self._calm_runs = 0
        self._is_wanted = True
        if self._is_changing:
            return
        if self._is_noted:
            self.trusts_claims = False
            return
        disk, path, note = self._disk, note_path(self._directory), encode_note(position)
        self._is_changing = True
        self._offload.submit(lambda: disk.replace(path, note), self._noted)

    def _noted(self, _: None, error: BaseException | None) -> None:
        """Handle the outcome. If the note could not be written, the slave goes on, only slower.

        The log may have become a master's meanwhile: then the note goes again with what is flushed,
        or the frames that follow would prove nothing.
        """
        self._is_changing = False
        if error is not None and not isinstance(error, OSError):
            raise error
        self._is_noted = error is None
        self.trusts_claims = error is not None or not self._is_wanted
        self._on_changed()

    def took(self, syncs: int, end_position: Position) -> None:
        """Count an appended run; catching up ends after CALM_RUNS runs with at most one sync."""
        if self.trusts_claims:
            return
        self._end = end_position
        self._calm_runs = self._calm_runs + 1 if syncs <= 1 else 0
        if self._calm_runs >= CALM_RUNS:
            self.trusts_claims = True

    def end(self) -> None:
        """Stop catching up: the log has become a master's."""
        self._is_wanted = False
        self.trusts_claims = True

    def flushed(self, position: Position) -> None:
        """Remove the note once everything that was taken under it is flushed."""
        if not self._is_noted or self._is_changing or not self.trusts_claims:
            return
        if position < self._end:
            return
        disk, directory = self._disk, self._directory
        self._is_changing = True

        def work() -> None:
            disk.remove(note_path(directory))
            disk.sync_directory(directory)

        self._offload.submit(work, self._removed)

    def _removed(self, _: None, error: BaseException | None) -> None:
        self._is_changing = False
        if error is not None and not isinstance(error, OSError):
            raise error
        self._is_noted = error is not None
        self._on_changed()


def remove_note(disk: Disk, directory: str) -> None:
    """Remove the note of a log that is synced completely. Errors of the disk are ignored."""
    with suppress(OSError):
        disk.remove(note_path(directory))
