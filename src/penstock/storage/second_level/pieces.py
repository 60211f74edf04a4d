"""Gives another member the bytes of an extent, in pieces: its summary, then its blocks.

    extent_at(partition, offset) ─► what is held there ─► read(extent, skip) ─► piece

Nothing of it is checked here: who gets it has the entry, and with it every checksum. The marks tell
whether what cleaning has left is still the same: a member that takes it takes all from one pass.

Source: docs/adr/0114; the taking side is range_rebuild.py.
"""

from collections.abc import Callable
from itertools import takewhile
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.base.ports import Lane
from penstock.storage.errors import ReadFailed
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.second_level.held import Extent, HeldExtents
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.off_loop import OffLoop
from penstock.storage.second_level.reading import ExtentPlace

_MARKED = Struct(">Qqq")

PieceRead = Callable[[bytes | None, PlatformError | None], None]


class Marks(NamedTuple):
    """How far a partition was rewritten here, and by which files."""

    rewritten_end: int
    """Where the last rewritten extent ends, exclusive; -1: none is."""
    fingerprint: int
    """Another number when any of the rewritten extents is another one."""


class ExtentPieces:
    """What one log gives. Used on the loop."""

    def __init__(
        self, place: ExtentPlace, held: Callable[[], HeldExtents], off_loop: OffLoop
    ) -> None:
        """`held()` returns what the level holds now."""
        self._place = place
        self._held = held
        self._off_loop = off_loop

    def extent_at(self, key: TopicPartition, offset: int) -> Extent | None:
        """Return the extent of a partition that has an offset in its range."""
        extent = next(self._held().of(key, offset), None)
        return None if extent is None or offset < extent.first_offset else extent

    def marks(self, key: TopicPartition) -> Marks:
        """Return the marks of a partition; rewritten extents come before all others."""
        rewritten = list(takewhile(lambda one: one.is_rewritten, self._held().of(key)))
        named = (
            _MARKED.pack(one.file_number, one.first_offset, one.end_offset) for one in rewritten
        )
        end = rewritten[-1].end_offset if rewritten else -1
        return Marks(end, crc32c(b"".join(named)))

    def read(self, extent: Extent, skip: int, max_bytes: int, done: PieceRead) -> None:
        """Read a piece from byte `skip` on; `done(piece, error)` on the loop. Empty at the end."""
        place = self._place

        def finished(piece: bytes | None, error: BaseException | None) -> None:
            done(piece, None if error is None else as_platform_error(error))

        self._off_loop(lambda: read_piece(place, extent, skip, max_bytes), finished, Lane.READ)


def piece_bytes(extent: Extent) -> int:
    """Return the bytes of all pieces of an extent."""
    return extent.entry.summary_bytes + extent.entry.extent_bytes


def read_piece(place: ExtentPlace, extent: Extent, skip: int, max_bytes: int) -> bytes:
    """Return bytes of an extent from `skip` on. Waits; raises ReadFailed."""
    entry, total = extent.entry, piece_bytes(extent)
    if not 0 <= skip < total:
        return b""
    size = min(max_bytes, total - skip)
    at = entry.extent_at + skip - entry.summary_bytes
    if skip < entry.summary_bytes:
        at, size = entry.summary_at + skip, min(size, entry.summary_bytes - skip)
    try:
        file = place.disk.open(extent_path(place.directory, extent.file_number))
        try:
            return bytes(file.read(at, size))
        finally:
            file.close()
    except OSError as error:
        raise ReadFailed(str(error)) from error
