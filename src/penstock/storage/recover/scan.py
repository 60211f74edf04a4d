"""Reading a segment frame by frame with all checks: for recovery, rebuild, verify and dump.

A scan begins at the start of a frame and ends after the last good one: at an end marker, where no
further frame fits, or at the first bytes that are not a valid frame of their position. It may wait
for the disk and is never used on the loop of a running log.

Source: Kafka `LogSegment.recover`, which likewise relies on the log alone.
"""

from collections.abc import Iterator, Sequence

from penstock.base.ids import Position
from penstock.base.ports import Disk, DiskFile
from penstock.frames.frames import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    KIND_END,
    MAGIC_PREFIX,
    FrameHeader,
    check_body,
    check_header,
    is_whole_newer,
    newer_header,
)
from penstock.storage.commit_log.segments import Segment
from penstock.storage.errors import CorruptFrame, NewerFormat

WINDOW_BYTES = 1 << 20
_PROBE_BYTES = 4096


class SegmentScan:
    """Iterates over (header, payload) of the good frames in [position, end) of a segment."""

    def __init__(self, file: DiskFile, base: Position, position: Position, end: Position) -> None:
        """Begin at `position`; `base` is the position of the file's first byte."""
        self._file = file
        self._base = base
        self._window = memoryview(b"")
        self._window_at = position
        self.position = position
        """End of the last good frame."""
        self.end = end
        self.error: CorruptFrame | None = None
        """Why the scan stopped; None where the segment properly ends."""
        self.end_marker: FrameHeader | None = None
        """The marker that ended the segment. It is not yielded; one of a newer epoch begins it."""
        self.frame = memoryview(b"")
        """The last good frame as in the file, with its header; at the end, the end marker."""

    def __iter__(self) -> Iterator[tuple[FrameHeader, memoryview]]:
        """Yield frames until the segment ends or a frame is bad. Raises NewerFormat."""
        while self.end - self.position >= FRAME_HEADER_BYTES:
            try:
                header, payload = self._frame()
            except CorruptFrame as error:
                self._refuse_newer()
                self.error = error
                return
            if header.kind == KIND_END:
                self.end_marker = header
                return
            self.position = Position(self.position + header.frame_bytes)
            yield header, payload

    def _frame(self) -> tuple[FrameHeader, memoryview]:
        position = self.position
        at = self._load(FRAME_HEADER_BYTES)
        header = check_header(self._window, at, position, self.end - position)
        at = self._load(header.frame_bytes)
        check_body(self._window, at, header)
        self.frame = self._window[at : at + header.frame_bytes]
        return header, self._window[at + FRAME_HEADER_BYTES : at + header.frame_bytes]

    def _refuse_newer(self) -> None:
        """Raise NewerFormat if the frame here is of a later release, and so is not torn."""
        at = self._load(FRAME_HEADER_BYTES)
        header = newer_header(self._window, at, self.position, self.end - self.position)
        if header is None:
            return
        at = self._load(header.frame_bytes)
        if is_whole_newer(self._window, at, header):
            what = f"a frame of version {header.version}, kind {header.kind}"
            raise NewerFormat(f"segment {self._base} at position {self.position}", what)

    def _load(self, length: int) -> int:
        """Load `length` bytes at the present position into the window; return their start."""
        at = self.position - self._window_at
        if at + length > len(self._window):
            wanted = min(max(length, WINDOW_BYTES), self.end - self.position)
            self._window = self._file.read(self.position - self._base, wanted)
            self._window_at = self.position
            at = 0
        return at


def find_good_frames(
    file: DiskFile, base: Position, position: Position, end: Position
) -> Iterator[FrameHeader]:
    """Yield headers of whole, valid frames anywhere in [position, end), in order.

    For use behind a bad frame, where the next frame's position is not known. Frames are found by
    their magic; old frames in a recycled file do not count, since they name another position.
    Blocks that were never written are not read.
    """
    for start, stop in file.data_ranges(position - base):
        # A frame may begin with zeros, and so before the written range in which its magic lies.
        position = Position(max(position, base + start - FRAME_HEADER_BYTES))
        limit = min(end, base + stop)
        while limit - position >= FRAME_HEADER_BYTES:
            data = bytes(file.read(position - base, min(WINDOW_BYTES, limit - position)))
            found = _next_frame(file, base, position, end, data)
            if found is not None:
                yield found
                position = Position(found.position + found.frame_bytes)
            elif len(data) < WINDOW_BYTES:
                break
            else:
                position = Position(position + len(data) - FRAME_HEADER_BYTES)


def _next_frame(
    file: DiskFile, base: Position, position: Position, end: Position, data: bytes
) -> FrameHeader | None:
    """Return the first valid frame whose header lies in `data`, which is read at `position`."""
    at = data.find(MAGIC_PREFIX, 4)
    while at >= 0:
        start = Position(position + at - 4)
        named = int.from_bytes(data[at + 12 : at + 20], "big")
        if named == start and at - 4 + FRAME_HEADER_BYTES <= len(data):
            scan = SegmentScan(file, base, start, end)
            frame = next(iter(scan), None)
            if frame is not None:
                return frame[0]
        at = data.find(MAGIC_PREFIX, at + 1)
    return None


def used_end(file: DiskFile, base: Position, end: Position) -> int:
    """Estimate where the data of a segment ends; `base` if there is none. Does few small reads.

    Allocated bytes that were never written are zero. In a recycled file old frames follow the
    data, so the estimate is too high there. It is only for showing progress.
    """
    try:
        check_header(file.read(0, FRAME_HEADER_BYTES), 0, base, end - base)
    except CorruptFrame:
        return base
    low: int = base
    high: int = end
    while high - low > WINDOW_BYTES:
        middle = (low + high) // 2
        if any(file.read(middle - base, _PROBE_BYTES)):
            low = middle
        else:
            high = middle
    return high


assert MAGIC_PREFIX[:2] == FRAME_MAGIC.to_bytes(2, "big")


def bytes_to_replay(disk: Disk, segments: Sequence[Segment], position: Position) -> int:
    """Return about how many bytes are to be read from `position` on, at least 1.

    Files are allocated ahead, so only the last one with data tells where the data ends.
    """
    for segment in reversed(segments):
        file = disk.open(segment.path)
        end = used_end(file, segment.base, segment.end)
        file.close()
        if end > segment.base:
            return max(end - position, 1)
    return 1
