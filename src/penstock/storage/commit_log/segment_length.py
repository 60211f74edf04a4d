"""The length of a closed segment's file, which its index stores.

If a file lost bytes behind its last frame, it looks at the next start as if retention had removed a
segment behind it. The file is extended to its old length again, since those bytes held no data. A
file that lost frames is damaged.

Source: ours, ADR 0020. It waits for the disk.
"""

from collections.abc import Sequence
from itertools import pairwise

from penstock.base.ids import Position
from penstock.base.ports import Disk
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.storage.commit_log.segments import Segment, index_path
from penstock.storage.errors import CorruptFile, CorruptLog
from penstock.storage.index.sealed_index import IndexHeader, read_index_header


def restore_lengths(disk: Disk, directory: str, segments: Sequence[Segment]) -> list[str]:
    """Restore the lengths of all segments that do not reach the next one; return what was done.

    Raises CorruptLog, OSError.
    """
    return [
        f"{older.path} was cut short behind its frames"
        for older, newer in pairwise(segments)
        if older.end < newer.base and restore_length(disk, directory, older)
    ]


def restore_length(disk: Disk, directory: str, segment: Segment) -> bool:
    """Extend a closed segment's file to the length that its index names.

    Returns whether it was too short; `segment.end` is then updated.

    Raises:
        CorruptLog: frames are missing too. OSError.
    """
    header = _index_header(disk, directory, segment.base)
    if header is None or header.segment_end <= segment.end:
        return False
    frames_end = header.data_end
    if header.segment_end - frames_end >= FRAME_HEADER_BYTES:
        frames_end = Position(frames_end + FRAME_HEADER_BYTES)  # the end marker
    if segment.end < frames_end:
        raise CorruptLog(directory, segment.end, "the segment file is cut short")
    extend(disk, segment.path, header.segment_end - segment.base)
    segment.end = header.segment_end
    return True


def extend(disk: Disk, path: str, size: int) -> None:
    """Make a file `size` bytes long, durably. Raises OSError."""
    file = disk.open(path)
    try:
        file.truncate(size)
        file.sync()
    finally:
        file.close()


def settle_length(disk: Disk, path: str) -> None:
    """Sync the length of a segment's file before the next segment is created. Raises OSError.

    A start that was killed may have truncated the file, to empty its tail, without a sync. After a
    power loss the old length would overlap the new segment.
    """
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def size_of(disk: Disk, path: str) -> int:
    """Return the length of a file. Raises OSError."""
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _index_header(disk: Disk, directory: str, base: Position) -> IndexHeader | None:
    path = index_path(directory, base)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return read_index_header(path, base, file.read)
    except CorruptFile:
        return None
    finally:
        file.close()
