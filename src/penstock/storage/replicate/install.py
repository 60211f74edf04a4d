"""Installing a base: copy another replica's files, check them, then swap them in atomically.

    <directory>/install/manifest          the base manifest that is being copied
    <directory>/install/log/<base>.part   a segment that is being copied
    <directory>/install/log/<base>.log    a complete one, synced: a later copy resumes behind it
    <directory>/install/second/...        extent files, in the same way; they follow the segments
    <directory>/install/index, snapshot   made here once all bytes are copied

Every frame and every extent file is checked before the swap, and indexes and the side file are
built from the frames and not copied, so that a slave serves only what it has checked. The snapshot
is the master's, but names this log's own side file. The swap is a pending change
(pending_change.py).

Source: Raft 7 (InstallSnapshot, chunks). All of it waits for the disk; one call at a time.
"""

from penstock.base.ids import LeaderEpoch, Offset, Position, TopicPartition
from penstock.base.ports import Disk, DiskFile
from penstock.extents.errors import ExtentError
from penstock.storage.commit_log.pending_change import PARTS, STAGING, ChangeKind, PendingChange
from penstock.storage.commit_log.segments import index_path, prepare_file, segment_path
from penstock.storage.commit_log.snapshot import (
    PartitionState,
    Snapshot,
    decode_snapshot,
    encode_partition,
    encode_snapshot,
    snapshot_path,
)
from penstock.storage.commit_log.truncation import read_whole
from penstock.storage.errors import BadInstall, CorruptFile
from penstock.storage.index.rebuild import Going, scan_columns
from penstock.storage.index.sealed_index import Sealed, encode_index
from penstock.storage.index.side_file import encode_side, side_path
from penstock.storage.replicate.base_manifest import BaseManifest, BasePiece, BaseSegment
from penstock.storage.second_level.files import checked_directory, encode_directory
from penstock.storage.second_level.held import HeldExtents
from penstock.storage.second_level.manifest import (
    Cut,
    FileEntry,
    encode_manifest,
    extent_path,
    manifest_path,
)
from penstock.storage.stores.port import Held

Parts = dict[TopicPartition, Sealed]


class LogInstall:
    """One copy into the staging directory of a log."""

    def __init__(
        self, disk: Disk, directory: str, manifest: BaseManifest, reserve_bytes: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._staging = f"{directory}/{STAGING}"
        self._manifest = manifest
        self._reserve_bytes = reserve_bytes
        self._todo: list[BasePiece] = []
        """Files that are not complete yet; the first is being copied."""
        self._file: DiskFile | None = None
        self.position = manifest.end_place
        """Next place to copy; the manifest's end when everything is copied."""

    def begin(self) -> int:
        """Keep the usable segments of an earlier copy, and return the position to copy from.

        Raises:
            BadInstall: the manifest is inconsistent. OSError.
        """
        manifest, disk, staging = self._manifest, self._disk, self._staging
        snapshot = self._snapshot()
        manifest.check()
        bases = [segment.base for segment in manifest.segments]
        is_of_it = bases[-1] == snapshot.active_base and snapshot.position == manifest.position
        if not is_of_it or not frozenset(bases) <= frozenset(snapshot.segments):
            raise BadInstall("its snapshot and its segments do not belong together")
        for part in ("", *(f"/{part}" for part in PARTS)):
            disk.make_directory(f"{staging}{part}")
        kept = self._kept()
        names = {self._staged(file) for file in kept}
        for part in PARTS:
            for name in disk.list(f"{staging}/{part}"):
                if f"{staging}/{part}/{name}" not in names:
                    disk.remove(f"{staging}/{part}/{name}")
            disk.sync_directory(f"{staging}/{part}")
        disk.replace(f"{staging}/manifest", manifest.encode())
        self._todo = [piece for piece in manifest.pieces() if piece.file not in kept]
        self._next()
        return self.position

    def _snapshot(self) -> Snapshot:
        try:
            return decode_snapshot("snapshot of the base", memoryview(self._manifest.snapshot))
        except CorruptFile as error:
            raise BadInstall(error.reason) from error

    def _staged(self, file: BaseSegment | FileEntry) -> str:
        """Return where the complete copy of a file is."""
        if isinstance(file, BaseSegment):
            return segment_path(self._staging, file.base)
        return extent_path(self._staging, file.number)

    def _kept(self) -> list[BaseSegment | FileEntry]:
        """Return the complete files of an earlier copy that are in this manifest too."""
        manifest, staging = self._manifest, self._staging
        try:
            earlier = BaseManifest.decode(read_whole(self._disk, f"{staging}/manifest"))
        except (FileNotFoundError, BadInstall):
            return []
        names = frozenset(self._disk.list(f"{staging}/log"))
        kept = [
            segment
            for segment in manifest.segments
            if segment in earlier.segments and f"{segment.base:020d}.log" in names
        ]
        if not kept:
            return []
        end = kept[-1].data_end
        if _epoch_at(earlier, end) != _epoch_at(manifest, end):
            return []
        extents = frozenset(self._disk.list(f"{staging}/second"))
        files = [
            file
            for file in manifest.files
            if file in earlier.files and f"{file.number:020d}.extents" in extents
        ]
        return [*kept, *files]

    def write(self, position: int, data: memoryview) -> int:
        """Write bytes of one file that begin at the place `position`; return the next one to copy.

        Raises:
            BadInstall: `position` is not the next one, or the bytes exceed the file. OSError.
        """
        if not self._todo or position != self.position:
            raise BadInstall(f"expected bytes from {self.position} on, not from {position}")
        piece = self._todo[0]
        if position + len(data) > piece.end:
            raise BadInstall(f"the bytes of this file end at {piece.end}")
        file = self._file or self._open_part(piece)
        file.write(position - piece.start, [data])
        self.position += len(data)
        if self.position == piece.end:
            self._finish_file(piece)
        return self.position

    def _open_part(self, piece: BasePiece) -> DiskFile:
        path = self._part_path(piece)
        file = piece.file
        capacity = piece.end - piece.start
        if isinstance(file, BaseSegment):
            capacity = file.end - file.base
        self._file = prepare_file(self._disk, self._reserve_bytes, path, capacity)
        return self._file

    def _part_path(self, piece: BasePiece) -> str:
        return f"{self._staged(piece.file).rpartition('.')[0]}.part"

    def _finish_file(self, piece: BasePiece) -> None:
        file = self._file or self._open_part(piece)
        file.sync()
        self.close()
        self._disk.rename(self._part_path(piece), self._staged(piece.file))
        self._todo.remove(piece)
        self._next()

    def _next(self) -> None:
        """Go to the next file; one without data needs no bytes."""
        if not self._todo:
            self.position = self._manifest.end_place
            return
        piece = self._todo[0]
        self.position = piece.start
        if piece.end == piece.start:
            self._finish_file(piece)

    def close(self) -> None:
        """Close the file that is being written."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def finish(self) -> PendingChange:
        """Check every frame, write indexes and snapshot, and return the swap as a pending change.

        Raises:
            BadInstall: a file is damaged, and was removed. OSError.
        """
        self.close()
        if self._todo:
            raise BadInstall(f"bytes from {self.position} on are missing")
        manifest = self._manifest
        snapshot = self._snapshot()
        is_part = manifest.start_position > snapshot.segments[0]
        kept, names = self._checked_extents()
        names += self._put_manifest(is_part=is_part)
        sizes: dict[TopicPartition, int] = {}
        last: Parts = {}
        going: Going = {}
        for segment in manifest.segments:
            last, data_end = self._checked(segment, going)
            names.append(f"log/{segment.base:020d}.log")
            for topic_partition, (columns, end_offset, *_) in last.items():
                found = Held(Offset(columns.bases[0]), end_offset)
                kept[topic_partition] = _joined(kept.get(topic_partition), found)
                sizes[topic_partition] = sizes.get(topic_partition, 0) + sum(columns.sizes)
            if segment is not manifest.segments[-1]:
                names.append(self._put_index(segment, data_end, last))
        partitions = [
            _shortened(state, manifest.start_position, kept, sizes)
            if is_part or _first_kept(state, kept) > state.log_start_offset
            else state
            for state in snapshot.partitions
        ]
        snapshot = snapshot._replace(partitions=partitions)
        names += self._put_snapshot(snapshot, last)
        end = manifest.segments[-1]
        payload = "\n".join(names).encode()
        return PendingChange(ChangeKind.INSTALL, manifest.position, end.base, end.end, payload)

    def _checked_extents(self) -> tuple[dict[TopicPartition, Held], list[str]]:
        """Check every extent file; return what they hold, and the names to be moved in."""
        held = HeldExtents()
        names = []
        for step in self._manifest.second.steps():
            if isinstance(step, Cut):
                held.cut(step.topic_partition, step.end_offset)
                continue
            path = self._staged(step)
            try:
                directory = checked_directory(self._disk, path, step)
            except ExtentError as error:
                self._disk.remove(path)
                self._disk.sync_directory(f"{self._staging}/second")
                raise BadInstall(str(error)) from error
            held.add(step.number, encode_directory(directory))
            names.append(path.removeprefix(f"{self._staging}/"))
        found = {key: held.held(key) for key in held.partitions()}
        return {key: one for key, one in found.items() if one is not None}, names

    def _put_manifest(self, *, is_part: bool) -> list[str]:
        """Write the manifest of the second level, if there is anything to say; return its name.

        Whether the master's own log was once copied in part does not matter: a master has all that
        its set keeps.
        """
        manifest = self._manifest
        missing_below = manifest.start_position if is_part else Position(0)
        if not manifest.files and not is_part:
            return []
        own = manifest.second._replace(missing_below=missing_below)
        self._disk.replace(manifest_path(self._staging), encode_manifest(own))
        return ["second/manifest"]

    def _checked(self, segment: BaseSegment, going: Going) -> tuple[Parts, Position]:
        """Check every frame of a copied segment; return its index and the end of its data.

        `going` are the transactions that the segments before it have left open.
        """
        is_last = segment is self._manifest.segments[-1]
        end = segment.data_end if is_last else segment.end
        path = segment_path(self._staging, segment.base)
        file = self._disk.open(path)
        try:
            parts, scan = scan_columns(file, segment.base, segment.base, end, going)
        finally:
            file.close()
        if scan.position == end or (not is_last and scan.error is None):
            return parts, scan.position
        reason = scan.error.reason if scan.error is not None else "the segment ends early"
        self._disk.remove(path)
        self._disk.sync_directory(f"{self._staging}/log")
        raise BadInstall(f"no valid frame at position {scan.position}: {reason}")

    def _put_index(self, segment: BaseSegment, data_end: Position, parts: Parts) -> str:
        path = index_path(self._staging, segment.base)
        self._disk.replace(
            path, encode_index(segment.base, data_end, parts, segment_end=segment.end)
        )
        return path.removeprefix(f"{self._staging}/")

    def _put_snapshot(self, snapshot: Snapshot, active: Parts) -> list[str]:
        """Write this log's side file and snapshot; return their names."""
        disk, staging = self._disk, self._staging
        side_number = 1 + self._newest_side_number()
        side = encode_side(active.items())
        path = side_path(staging, snapshot.active_base, side_number)
        disk.replace(path, side)
        own = snapshot._replace(
            is_clean=False,
            side_number=side_number,
            side_bytes=len(side),
            segments=[segment.base for segment in self._manifest.segments],
        )
        name = snapshot_path(staging, own.position)
        states = [encode_partition(state) for state in own.partitions]
        disk.replace(name, encode_snapshot(own, states))
        return [written.removeprefix(f"{staging}/") for written in (path, name)]

    def _newest_side_number(self) -> int:
        names = self._disk.list(f"{self._directory}/index")
        return max((int(name[21:-5]) for name in names if name.endswith(".side")), default=0)


def _epoch_at(manifest: BaseManifest, position: Position) -> tuple[LeaderEpoch, Position] | None:
    """Return the newest epoch that started below `position`: logs that share it agree up to it."""
    below = [epoch for epoch in manifest.epochs if epoch[1] < position]
    return below[-1] if below else None


def _joined(before: Held | None, found: Held) -> Held:
    """Return what there is of a partition with a segment behind it: the last part without a gap.

    Extent files hold what segments between others had that were deleted, so what there was before
    may end behind the segment.
    """
    if before is None or not before.start_offset <= found.start_offset <= before.end_offset:
        return found
    return Held(before.start_offset, max(before.end_offset, found.end_offset))


def _first_kept(state: PartitionState, kept: dict[TopicPartition, Held]) -> Offset:
    """Return the first offset from which the copied segments have a partition without a gap."""
    held = kept.get(state.topic_partition)
    return state.log_end_offset if held is None else held.start_offset


def _shortened(
    state: PartitionState,
    start_position: Position,
    kept: dict[TopicPartition, Held],
    sizes: dict[TopicPartition, int],
) -> PartitionState:
    """Return a partition's state with its start raised to what was copied.

    Needed if only the log from `start_position` on was copied, or if the master has older records
    in another store, which are not copied.
    """
    return state._replace(
        log_start_offset=max(state.log_start_offset, _first_kept(state, kept)),
        size_bytes=sizes.get(state.topic_partition, 0),
        sized_from=start_position,
    )
