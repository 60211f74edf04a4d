"""The scrub: read a log in small slices, to find damage before the bytes are needed.

    slice: frames from a position on, checked as recovery checks them ─► next position, or damage
    end of a closed segment: its file's length and its index, which is rebuilt if damaged
    end of the log: the snapshots; a damaged one is replaced by a new one
    behind it: the second level, file after file (second_level/scrubbing.py)

Damage in the log is reported (`on_damage`) and not repaired here: the good bytes are on another
member. Reads go through the page cache, so cached pages are checked there and not on the disk.

Source: ZFS scrub, HDFS block scanner; ADR 0020. replica/scrubber.py decides how often and how fast.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.base.ports import Disk
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.storage.commit_log.parts import LogParts
from penstock.storage.commit_log.segment_length import extend
from penstock.storage.commit_log.segments import Segment, index_path
from penstock.storage.commit_log.snapshot import decode_snapshot
from penstock.storage.errors import CorruptFile, CorruptFrame
from penstock.storage.index.rebuild import rebuild_index
from penstock.storage.index.sealed_index import read_block, read_directory, read_index_header
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.recover.scan import SegmentScan
from penstock.storage.second_level.scrubbing import ExtentSlice

FROM_START = Position(-1)
"""Where a pass begins."""


SECOND_LEVEL = Position(1 << 62)
"""Behind every position of a log: a pass that got there is in the second level."""


class Scrubbed(NamedTuple):
    """The result of one slice."""

    next_position: Position
    """Where the next slice begins; FROM_START when the pass is over."""
    read_bytes: int = 0
    rebuilt: int = 0
    """Number of damaged derived files that were rebuilt."""
    damaged: int = 0
    """Number of extent files in which damage was found; they are known to be damaged then."""


Done = Callable[[Scrubbed | None, PlatformError | None], None]


class _Slice(NamedTuple):
    path: str
    base: Position
    position: Position
    end: Position
    is_closed: bool
    max_bytes: int


def scrub(
    disk: Disk, directory: str, parts: LogParts, *, position: Position, max_bytes: int, done: Done
) -> None:
    """Check up to `max_bytes` from `position` on, off the loop; see SetLog.scrub."""
    if position == SECOND_LEVEL:
        _scrub_extents(parts, max_bytes, done)
        return
    segment = _segment_at(parts, position)
    limit = parts.writer.flushed_position
    if segment is None or max(position, segment.base) >= limit:
        _scrub_snapshots(disk, directory, parts, done)
        return
    wanted = _Slice(
        segment.path,
        segment.base,
        max(position, segment.base),
        min(segment.end, limit),
        segment is not parts.store.active and segment.pending is None,
        max_bytes,
    )
    parts.reader.off_loop(
        lambda: _read_slice(disk, directory, wanted),
        lambda found, error: done(found, None if error is None else as_platform_error(error)),
    )


def _segment_at(parts: LogParts, position: Position) -> Segment | None:
    """Return the segment of `position`, or the next one if that was deleted."""
    for segment in parts.store.segments:
        if segment.end > position:
            return segment
    return None


def _read_slice(disk: Disk, directory: str, wanted: _Slice) -> Scrubbed:
    file = disk.open(wanted.path)
    try:
        end = wanted.end
        if wanted.is_closed:
            end = min(end, Position(wanted.base + file.size()))
        scan = SegmentScan(file, wanted.base, wanted.position, end)
        for _ in scan:
            if scan.position - wanted.position >= wanted.max_bytes:
                break
        else:
            _check_end(scan, wanted)
            rebuilt = 0
            if wanted.is_closed:
                rebuilt += end < wanted.end
                if end < wanted.end:
                    extend(disk, wanted.path, wanted.end - wanted.base)
                rebuilt += _check_index(disk, directory, wanted)
            return Scrubbed(wanted.end, scan.position - wanted.position, rebuilt)
        return Scrubbed(scan.position, scan.position - wanted.position)
    finally:
        file.close()


def _check_end(scan: SegmentScan, wanted: _Slice) -> None:
    """Check that the frames end where the segment's data must end. Raises CorruptFrame."""
    if scan.error is not None:
        raise CorruptFrame(scan.error.position, scan.error.reason)
    if scan.end_marker is None and wanted.end - scan.position >= FRAME_HEADER_BYTES:
        raise CorruptFrame(scan.position, "the segment file is cut short")


def _check_index(disk: Disk, directory: str, wanted: _Slice) -> int:
    """Read a closed segment's index; rebuild it if it is damaged. Return how many were rebuilt."""
    path = index_path(directory, wanted.base)
    try:
        file = disk.open(path)
        try:
            header = read_index_header(path, wanted.base, file.read)
            for entry in read_directory(path, header, file.read):
                read_block(path, entry, file.read)
        finally:
            file.close()
    except (CorruptFile, FileNotFoundError):
        rebuild_index(disk, directory, wanted.base, wanted.path)
        return 1
    return 0


def _scrub_extents(parts: LogParts, max_bytes: int, done: Done) -> None:
    """Check more of the second level; a file that is damaged is known as such then."""

    def checked(found: ExtentSlice | None, error: PlatformError | None) -> None:
        if found is None:
            done(None, error)
            return
        place = FROM_START if found.is_over else SECOND_LEVEL
        done(Scrubbed(place, found.read_bytes, found.rebuilt, found.damaged), None)

    parts.second_level.scrub.go_on(max_bytes, checked)


def _scrub_snapshots(disk: Disk, directory: str, parts: LogParts, done: Done) -> None:
    """End the log's part: replace damaged snapshots by a new one, which may take a while."""

    def again(has_worked: bool) -> None:
        if has_worked and not parts.store.is_closed:
            parts.offload.submit(lambda: _drop_damaged(disk, directory), _note_outcome)

    def finished(damaged: int | None, error: BaseException | None) -> None:
        if damaged:
            parts.checkpointer.request(again)
            parts.tick()
        failed = None if error is None else as_platform_error(error)
        parts.second_level.scrub.begin()
        place = SECOND_LEVEL if parts.second_level.is_used else FROM_START
        done(None if failed else Scrubbed(place, 0, damaged or 0), failed)

    parts.reader.off_loop(lambda: _drop_damaged(disk, directory), finished)


def _drop_damaged(disk: Disk, directory: str) -> int:
    """Return how many snapshots are damaged; remove them if a good one is left."""
    found = disk.list(f"{directory}/snapshot")
    paths = [f"{directory}/snapshot/{name}" for name in found if name.endswith(".snap")]
    damaged = [path for path in paths if not _is_good(disk, path)]
    if len(damaged) < len(paths):
        for path in damaged:
            disk.remove(path)
    return len(damaged)


def _note_outcome(_: int | None, error: BaseException | None) -> None:
    """Pass an error of the disk over: the next pass checks again."""
    if error is not None and not isinstance(error, OSError):
        raise error


def _is_good(disk: Disk, path: str) -> bool:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return True  # a newer one has replaced it meanwhile
    try:
        decode_snapshot(path, file.read(0, file.size()))
    except CorruptFile:
        return False
    finally:
        file.close()
    return True
