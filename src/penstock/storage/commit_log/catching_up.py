"""The note that a log is catching up: its frames are no proof of what was flushed here.

    <directory>/catching-up    24 bytes, big-endian: magic "PSCU", version u16, 2 zero,
                               position i64, crc32c u32 of the 16 before, 4 zero

A frame says how far the master had flushed its log when it was appended, and recovery believes it.
A slave that copies an old stretch would have to sync once for every sync that the master made
then. Instead it makes this note durable first: claims of frames at or above `position` prove
nothing. When the log is flushed beyond every frame taken that way they are true, and the note goes.

Source: ours; the evidence rule is in ADR 0002. It never lets damage below a snapshot pass.
"""

from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from penstock.base.ports import Disk, Offload

NOTE = Struct(">4sH2xq")
CRC = Struct(">I4x")
MAGIC = b"PSCU"
VERSION = 1
EVERYWHERE = 1 << 63
"""Above every position."""
CALM_RUNS = 16
"""Runs in a row that ask for one sync at most, after which the log counts as caught up."""


def note_path(directory: str) -> str:
    """Return the path of the note."""
    return f"{directory}/catching-up"


def encode_note(position: int) -> bytes:
    """Return the note that claims from `position` on prove nothing."""
    head = NOTE.pack(MAGIC, VERSION, position)
    return head + CRC.pack(crc32c(head))


def read_note(disk: Disk, directory: str, on_damaged: Callable[[str], None]) -> int:
    """Return from where on claims prove nothing: EVERYWHERE without a note, 0 for a damaged one,
    which `on_damaged` hears of.
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
            return int(position)
    on_damaged(f"{path} is damaged: it counts as a note of position 0")
    return 0


class CatchingUp:
    """Whether a follower catches up, and the note that says so. Used on the loop only."""

    def __init__(
        self, disk: Disk, directory: str, offload: Offload, on_changed: Callable[[], None]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._offload = offload
        self._on_changed = on_changed
        self._is_noted = False
        self._is_changing = False
        self._end = 0
        self._calm_runs = 0
        self.trusts_claims = True
        """Whether frames may only speak of what is flushed here."""

    def begin(self, position: int) -> None:
        """Catch up from `position` on; `on_changed` follows where the note has to be written."""
        self._calm_runs = 0
        if self._is_changing:
            return
        if self._is_noted:
            self.trusts_claims = False
            return
        disk, path, note = self._disk, note_path(self._directory), encode_note(position)
        self._is_changing = True
        self._offload.submit(lambda: disk.replace(path, note), self._noted)

    def _noted(self, _: None, error: BaseException | None) -> None:
        """Without the note it goes on as before, only slower."""
        self._is_changing = False
        if error is not None and not isinstance(error, OSError):
            raise error
        self._is_noted = error is None
        self.trusts_claims = error is not None
        self._on_changed()

    def took(self, syncs: int, end_position: int) -> None:
        """Take note of a run that was appended; ends the catching up when runs are calm."""
        if self.trusts_claims:
            return
        self._end = end_position
        self._calm_runs = self._calm_runs + 1 if syncs <= 1 else 0
        if self._calm_runs >= CALM_RUNS:
            self.trusts_claims = True

    def end(self) -> None:
        """Catch up no more: the log has become a master's."""
        self.trusts_claims = True

    def flushed(self, position: int) -> None:
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
    """Remove the note of a log of which everything is synced; a disk that refuses may keep it."""
    with suppress(OSError):
        disk.remove(note_path(directory))
