"""Exporting a base: the newest snapshot, the segments below it and the second level.

    export_base ─► newest snapshot + the length of each segment's data + extent files ─► BaseExport
                                 │ read, read, read ... release, or no read for SILENCE_MS
    retention may remove segments from the log meanwhile: their files stay until then

The export holds a ticket of the read guard: files are removed only when every read that began
before has ended.

Source: Raft 7 (InstallSnapshot). It knows no connection: the owner requests the next bytes.
"""

from collections.abc import Callable

from penstock.base.callbacks import nothing
from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.base.ports import Cancellable, Disk
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.storage.commit_log.parts import LogParts
from penstock.storage.commit_log.segments import index_path, segment_path
from penstock.storage.commit_log.snapshot import decode_snapshot, snapshot_path
from penstock.storage.commit_log.truncation import read_snapshots, read_whole
from penstock.storage.errors import BaseNotReady, CorruptFile, ExportEnded, PositionOutOfRange
from penstock.storage.index.sealed_index import read_index_header
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.replicate.base_manifest import BaseManifest, BasePiece, BaseSegment
from penstock.storage.second_level.files import read_manifest
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.reading import ExtentPlace

SILENCE_MS = 60_000
"""A copy without a read for so long is ended, since its files hold space that retention frees."""
EXPORTS_MAX = 8

Bytes = Callable[[memoryview | None, PlatformError | None], None]


class BaseExport:
    """A manifest and its files, kept until `release` or until SILENCE_MS without a read."""

    def __init__(self, disk: Disk, directory: str, parts: LogParts, ticket: int) -> None:
        self._disk = disk
        self._directory = directory
        self._parts = parts
        self._ticket = ticket
        self._timer: Cancellable | None = None
        self.manifest = BaseManifest(Position(0), [], [], b"")
        self.is_released = False
        self.on_released: Callable[[BaseExport], None] = nothing

    def begin(self, manifest: BaseManifest) -> None:
        """Begin to serve `manifest`."""
        self.manifest = manifest
        self._heard()

    def keep(self) -> None:
        """Keep the files until the next read or `release`: it is the owner who delays the read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heard(self) -> None:
        self.keep()
        scheduler = self._parts.writer.scheduler
        self._timer = scheduler.call_later(SILENCE_MS, self.release)

    def has(self, position: int) -> bool:
        """Whether the manifest has bytes at the place `position`."""
        return self._piece_at(position) is not None

    def _piece_at(self, place: int) -> BasePiece | None:
        for piece in self.manifest.pieces():
            if piece.start <= place < piece.end:
                return piece
        return None

    def read(self, position: int, max_bytes: int, done: Bytes) -> None:
        """Read raw bytes off the loop: up to `max_bytes`, not beyond the end of the file there.

        `position` is a place of the manifest; after the end of a file continue at the next one's
        start. Calls `done(data, error)`, with ExportEnded after the release.
        """
        if self.is_released or self._parts.store.is_closed:
            self.release()
            done(None, ExportEnded())
            return
        self._heard()
        piece, manifest = self._piece_at(position), self.manifest
        if piece is None:
            done(None, PositionOutOfRange(position, manifest.start_position, manifest.end_place))
        else:
            self._read(piece, position, min(max_bytes, piece.end - position), done)

    def _read(self, piece: BasePiece, position: int, length: int, done: Bytes) -> None:
        disk, directory, file_of = self._disk, self._directory, piece.file
        path = (
            segment_path(directory, file_of.base)
            if isinstance(file_of, BaseSegment)
            else extent_path(directory, file_of.number)
        )

        def work() -> memoryview:
            file = disk.open(path)
            try:
                return file.read(position - piece.start, length)
            finally:
                file.close()

        def finished(data: memoryview | None, error: BaseException | None) -> None:
            if error is not None:
                done(None, as_platform_error(error))
            elif data is None or len(data) != length:
                done(None, ExportEnded())
            else:
                done(data, None)

        self._parts.offload.submit(work, finished)

    def release(self) -> None:
        """Let retention delete the files again. May be called more than once."""
        if self.is_released:
            return
        self.is_released = True
        self.keep()
        self._parts.store.guard.leave(self._ticket)
        self.on_released(self)


class Exports:
    """The exports of one log. Used on the loop only."""

    def __init__(self, disk: Disk, directory: str, parts: LogParts) -> None:
        self._disk = disk
        self._directory = directory
        self._parts = parts
        self._open: list[BaseExport] = []

    def begin(
        self,
        done: Callable[[BaseExport | None, PlatformError | None], None],
        *,
        newest_only: bool,
    ) -> None:
        """Make an export; see ReplicableLog.export_base."""
        if len(self._open) >= EXPORTS_MAX:
            done(None, BaseNotReady(f"{EXPORTS_MAX} copies are under way"))
            return
        disk, directory, parts = self._disk, self._directory, self._parts
        export = BaseExport(disk, directory, parts, parts.store.guard.enter())
        export.on_released = self._open.remove
        self._open.append(export)

        def made(manifest: BaseManifest | None, error: BaseException | None) -> None:
            if manifest is None:
                export.release()
                done(None, None if error is None else as_platform_error(error))
                return
            export.begin(manifest)
            done(export, None)

        parts.offload.submit(lambda: make_manifest(disk, directory, newest_only), made)


def make_manifest(disk: Disk, directory: str, newest_only: bool) -> BaseManifest:
    """Return the manifest of the newest snapshot. Waits for the disk.

    Raises:
        BaseNotReady: there is no snapshot. OSError.
    """
    newest = next(read_snapshots(disk, directory), None)
    if newest is None:
        raise BaseNotReady("the log has no snapshot yet")
    path = snapshot_path(directory, newest.position)
    data = bytes(read_whole(disk, path))
    snapshot = decode_snapshot(path, memoryview(data))
    bases = [base for base in snapshot.segments if base <= snapshot.active_base]
    second = read_manifest(ExtentPlace(disk, directory))
    if newest_only and not second.files:
        bases = [snapshot.active_base]
    segments = [_bounds(disk, directory, base, snapshot.position) for base in bases]
    epochs = [epoch for epoch in snapshot.epochs if epoch[1] < snapshot.position]
    return BaseManifest(snapshot.position, segments, epochs, data, second)


def _bounds(disk: Disk, directory: str, base: Position, position: Position) -> BaseSegment:
    """Return the bounds of a segment's data: it ends at the end marker, or at the snapshot."""
    file = disk.open(segment_path(directory, base))
    try:
        end = Position(base + file.size())
    finally:
        file.close()
    if position < end:
        return BaseSegment(base, end, position)
    path = index_path(directory, base)
    try:
        index = disk.open(path)
    except FileNotFoundError:
        return BaseSegment(base, end, end)
    try:
        data_end = read_index_header(path, base, index.read).data_end
    except CorruptFile:
        data_end = end
    finally:
        index.close()
    has_marker = end - data_end >= FRAME_HEADER_BYTES
    return BaseSegment(base, end, Position(data_end + has_marker * FRAME_HEADER_BYTES))
