"""Reading runs: frames of a log, byte for byte as in its files, for its slaves.

    one read of up to max_bytes ─► walk over the frame headers ─► whole frames of one epoch

Bytes in the page cache are read on the loop into a buffer of the disk's pool; others come as
`ColdRun`, read in the Offload. Mapping the file would save one copy, but if a file is truncated
while a slow connection still holds a view the process would be killed, and a recycled file would
show it other bytes.

Source: RocketMQ `HAConnection.WriteSocketService` (selectMappedBuffer). Checksums of bytes in the
page cache are not verified here, since the slave checks everything. They are verified for bytes
from the disk, and for the first runs after a handshake (`is_checked`): the slave may have
reconnected because it was sent damaged bytes.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position
from penstock.base.ports import Disk, DiskFile
from penstock.frames.frames import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_VERSION,
    KIND_END,
)
from penstock.frames.run import ColdRun, Run, RunLoaded
from penstock.storage.commit_log.segments import Segment, SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.errors import CorruptFrame, NoFrameBegins, PositionOutOfRange
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.read.read_check import check_run
from penstock.storage.read.reader import LogReader
from penstock.storage.replicate.blame import blame

WALK = Struct(">4xIIiQ")
FRAME_WORD = FRAME_MAGIC << 8 | FRAME_VERSION
NO_BYTES = memoryview(b"")
REFUTED_MAX = 8
"""As many as a set has slaves, mostly; a slave that is wrong comes again with the same position."""

_walk = WALK.unpack_from


class Wanted(NamedTuple):
    """A read of up to `length` bytes from `position` on, without frames that end above `limit`."""

    position: Position
    length: int
    limit: Position


class RunReader:
    """Reads runs of one log. Used on the loop only."""

    def __init__(
        self, *, disk: Disk, store: SegmentStore, writer: LogWriter, reader: LogReader
    ) -> None:
        self._disk = disk
        self._store = store
        self._writer = writer
        self._reader = reader
        self._refuted: deque[Position] = deque(maxlen=REFUTED_MAX)
        """At which no frame begins: whoever comes with one again has no segment scanned again."""

    @property
    def start_position(self) -> Position:
        """Lowest position from which the segments are contiguous."""
        segments = self._store.segments
        start = segments[-1].base
        for segment in reversed(segments[:-1]):
            if segment.end != start:
                break
            start = segment.base
        return start

    def read(
        self,
        position: Position,
        max_bytes: int,
        limit_position: Position,
        *,
        is_checked: bool = False,
    ) -> Run | ColdRun:
        """Return whole frames from `position` on; see ReplicableLog.read_run."""
        found = self._find(position, max_bytes, limit_position)
        segment = self._store.segment_of(found.position) if isinstance(found, Run) else None
        if is_checked and isinstance(found, Run) and segment is not None:
            try:
                check_run(found.data, found.position, found.file_end)
            except CorruptFrame as error:
                return self._doubted(segment, error)
        return found

    def _find(self, position: Position, max_bytes: int, limit_position: Position) -> Run | ColdRun:
        writer = self._writer
        if writer.fenced is not None and self._store.is_closed:
            raise writer.fenced
        limit = min(limit_position, writer.written_position)
        segment = self._store.segment_of(position)
        if segment is not None and segment.end - position < FRAME_HEADER_BYTES:
            if limit < segment.end:
                return self._nothing(segment, position)
            position = segment.end
            segment = self._store.segment_of(position)
        if segment is None and position == writer.end_position:
            return self._nothing(self._store.active, position)
        if segment is None or not self._is_connected(segment) or position > writer.end_position:
            raise PositionOutOfRange(position, self.start_position, writer.end_position)
        if position + FRAME_HEADER_BYTES > limit:
            return self._nothing(segment, position)
        length = min(max(max_bytes, FRAME_HEADER_BYTES), limit - position, segment.end - position)
        return self._read(segment, Wanted(position, length, limit))

    def _is_connected(self, segment: Segment) -> bool:
        """Whether no segment behind this one is missing; mostly asked about the active one."""
        return segment is self._store.active or segment.base >= self.start_position

    def _nothing(self, segment: Segment, position: Position) -> Run:
        epoch = self._writer.leader_epoch
        return Run(epoch, position, segment.base, segment.end, NO_BYTES, position)

    def _read(self, segment: Segment, wanted: Wanted) -> Run | ColdRun:
        file, position = segment.file, wanted.position
        if file is None:
            return self._cold(segment, wanted)
        try:
            data = file.read_cached(position - segment.base, wanted.length)
            if data is None:
                return self._cold(segment, wanted)
            found = walk_frames(data, position, segment.end)
            if not found.size:
                if position + found.wanted > wanted.limit:
                    return self._nothing(segment, position)
                data = file.read_cached(position - segment.base, found.wanted)
                if data is None:
                    return self._cold(segment, wanted)
                found = walk_frames(data, position, segment.end)
            return make_run(data, found, segment.base, segment.end, position)
        except OSError as error:
            raise as_platform_error(error) from error
        except CorruptFrame as error:
            return self._doubted(segment, error)

    def _doubted(self, segment: Segment, error: CorruptFrame) -> ColdRun:
        """Return a run that fails with whose mistake it is, see blame.py.

        Raises NoFrameBegins if that is known of the position.
        """
        if error.position in self._refuted:
            raise NoFrameBegins(error.position)
        disk, path, base, end = self._disk, segment.path, segment.base, segment.end

        def work() -> Run:
            file = disk.open(path)
            try:
                raise blame(file, base, end, error)
            finally:
                file.close()

        return ColdRun(0, lambda done: self._off_loop(work, done))

    def _off_loop(
        self,
        work: Callable[[], Run | None],
        done: Callable[[Run | None, PlatformError | None], None],
    ) -> None:
        def finished(run: Run | None, error: BaseException | None) -> None:
            if isinstance(error, NoFrameBegins):
                self._refuted.append(error.position)
            done(run, None if error is None else as_platform_error(error))

        self._reader.off_loop(work, finished)

    def _cold(self, segment: Segment, wanted: Wanted) -> ColdRun:
        return ColdRun(wanted.length, lambda done: self._load(segment, wanted, done))

    def _load(self, segment: Segment, wanted: Wanted, done: RunLoaded) -> None:
        disk, path, base, end = self._disk, segment.path, segment.base, segment.end

        def work() -> Run | None:
            file = disk.open(path)
            try:
                return _read_cold(file, base, end, wanted)
            except CorruptFrame as error:
                raise blame(file, base, end, error) from error
            finally:
                file.close()

        def loaded(run: Run | None, error: PlatformError | None) -> None:
            if error is not None:
                done(None, error)
                return
            if not self._store.is_closed:
                self._store.keep_open(segment)
            done(run or self._nothing(segment, wanted.position), None)

        self._off_loop(work, loaded)


def _read_cold(file: DiskFile, base: Position, end: Position, wanted: Wanted) -> Run | None:
    """Read the run, off the loop; None if its first frame ends above the limit."""
    position = wanted.position
    data = file.read(position - base, wanted.length)
    found = walk_frames(data, position, end)
    if not found.size:
        if position + found.wanted > wanted.limit:
            return None
        data = file.read(position - base, found.wanted)
        found = walk_frames(data, position, end)
    run = make_run(data, found, base, end, position)
    check_run(run.data, position, end)
    return run


class Walked(NamedTuple):
    """The result of a walk over frame headers."""

    size: int
    """Number of bytes of whole frames of one epoch; 0 if not even the first one is whole."""
    wanted: int
    """Size of the first frame."""
    leader_epoch: LeaderEpoch
    is_ended: bool
    """Whether the last frame is the segment's end marker."""


def walk_frames(data: memoryview, position: Position, segment_end: Position) -> Walked:
    """Walk over the frames in `data`, which was read at `position` of a log.

    Raises:
        CorruptFrame: there is no frame header where one must be.
    """
    at = first_bytes = first_epoch = 0
    is_ended = False
    size = len(data)
    while size - at >= FRAME_HEADER_BYTES and not is_ended:
        word, frame_bytes, epoch, named = _walk(data, at)
        end = at + frame_bytes
        if word >> 8 != FRAME_WORD or named != position + at or frame_bytes < FRAME_HEADER_BYTES:
            raise CorruptFrame(position + at, "no frame begins here")
        if position + end > segment_end:
            raise CorruptFrame(position + at, "the frame does not fit its segment")
        if not at:
            first_bytes, first_epoch = frame_bytes, epoch
        if end > size or epoch != first_epoch:
            break
        at = end
        is_ended = word & 0xFF == KIND_END
    if not first_bytes or (not at and first_bytes <= size):
        raise CorruptFrame(position, "the file ends here")
    return Walked(at, first_bytes, LeaderEpoch(first_epoch), is_ended)


def make_run(
    data: memoryview, found: Walked, base: Position, end: Position, position: Position
) -> Run:
    """Return the run that a walk over `data` has found, in the segment [base, end).

    Raises CorruptFrame if the first frame is not whole: the file ends inside it.
    """
    if not found.size:
        raise CorruptFrame(position, "the file ends inside the frame")
    data = data[: found.size]
    next_position = end if found.is_ended else Position(position + found.size)
    return Run(found.leader_epoch, position, base, end, data, next_position)
