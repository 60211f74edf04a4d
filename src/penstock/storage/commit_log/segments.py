"""The segment files of a commit log: finding the one of a position, allocating the next one.

    log/<base position, 20 digits>.log     a segment; its length is its capacity
    log/<base position, 20 digits>.new     a segment that is being allocated
    log/<number>.spare                     a deleted segment, kept to be written over
    index/<base position>.idx              sealed index of a closed segment
    index/<base position>-<number>.side    side file of an active segment

Segments follow one another without a gap: a segment's base plus its capacity is the next base. So
the next file is allocated under its final name long before it is needed, off the loop, and a roll
only switches to it. A deleted file becomes a spare: the new segment then overwrites allocated
blocks. Old frames in it are never taken for live ones, since a frame names its own position.

Only the loop changes this state; work off the loop gets what it needs as arguments.

Source: RocketMQ `AllocateMappedFileService` (allocation ahead of need); recycling as measured in
ADR 0002. This module does not read the files' contents.
"""

import errno
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter

from penstock.base.callbacks import nothing
from penstock.base.ids import Position, TopicPartition
from penstock.base.ports import Disk, DiskFile, Offload
from penstock.storage.config import LogConfig
from penstock.storage.index.sealed_index import Sealed


class Segment:
    """One file of the log, positions [base, end)."""

    __slots__ = ("base", "data_end", "end", "file", "is_doomed", "path", "pending")

    def __init__(self, directory: str, base: Position, capacity: int) -> None:
        self.base = base
        self.end = Position(base + capacity)
        self.path = segment_path(directory, base)
        self.file: DiskFile | None = None
        """None while the file is being allocated, or is closed and not held open."""
        self.data_end = self.end
        """End of the last frame of a closed segment."""
        self.pending: dict[TopicPartition, Sealed] | None = None
        """The index of a closed segment, in memory until its index file is written."""
        self.is_doomed = False
        """All its data is out of retention: the next snapshot must not refer to it."""


def segment_path(directory: str, base: Position) -> str:
    """Return the path of the segment that begins at `base`."""
    return f"{directory}/log/{base:020d}.log"


def index_path(directory: str, base: Position) -> str:
    """Return the path of the sealed index of the segment that begins at `base`."""
    return f"{directory}/index/{base:020d}.idx"


def usual_capacity(config: LogConfig, base: Position) -> int:
    """Return the size of the segment that begins at `base`, unless `set_capacity` says otherwise.

    All logs with the same settings have the same sizes, so that slaves allocate the right ones.
    """
    return min(config.segment_bytes, max(config.first_segment_bytes, base))


def prepare_file(
    disk: Disk, reserve_bytes: int, target: str, capacity: int, spare: str | None = None
) -> DiskFile:
    """Make a segment file of `capacity` bytes at `target`, from `spare` if there is one. Waits.

    Raises OSError; ENOSPC also when the file would leave less than the reserve free.
    """
    if spare is not None:
        disk.rename(spare, target)
        return disk.open(target)
    free = disk.free_bytes()
    if free - capacity < reserve_bytes:
        needed = f"a segment takes {capacity} bytes and log.reserve_bytes keeps {reserve_bytes}"
        raise OSError(errno.ENOSPC, f"{needed} free; {free} are available")
    unfinished = target.removesuffix(".log") + ".new"
    file = disk.open(unfinished, create=True)
    try:
        file.allocate(capacity)
        file.sync()
        disk.rename(unfinished, target)
    except OSError:
        file.close()
        disk.remove(unfinished)
        raise
    return file


def new_segment(disk: Disk, directory: str, config: LogConfig, base: Position) -> Segment:
    """Make an empty segment of the usual size. Waits; raises OSError."""
    capacity = usual_capacity(config, base)
    path = segment_path(directory, base)
    prepare_file(disk, config.reserve_bytes, path, capacity).close()
    return Segment(directory, base, capacity)


class ReadGuard:
    """Lets reads off the loop finish before a file that they may use is removed."""

    __slots__ = ("_active", "_next", "_waiting")

    def __init__(self) -> None:
        self._active: OrderedDict[int, None] = OrderedDict()
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._next = 0

    def enter(self) -> int:
        """Note a read that begins; returns its ticket."""
        ticket = self._next
        self._next += 1
        self._active[ticket] = None
        return ticket

    def leave(self, ticket: int) -> None:
        """Note that the read has ended; runs what waited for it."""
        del self._active[ticket]
        oldest = next(iter(self._active), self._next)
        while self._waiting and self._waiting[0][0] <= oldest:
            self._waiting.pop(0)[1]()

    def when_clear(self, action: Callable[[], None]) -> None:
        """Run `action` once every read that has begun so far has ended."""
        if self._active:
            self._waiting.append((self._next, action))
        else:
            action()


class SegmentStore:
    """All segments of one log, oldest first; the last of `segments` is the active one."""

    __slots__ = (
        "_after_preparing",
        "_capacity",
        "_config",
        "_directory",
        "_disk",
        "_is_preparing",
        "_offload",
        "_open",
        "_recycling",
        "_spare_number",
        "_young_from",
        "closing",
        "guard",
        "is_closed",
        "next_file",
        "on_prepared",
        "prepare_error",
        "segments",
        "spares",
    )

    def __init__(self, disk: Disk, directory: str, config: LogConfig, offload: Offload) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._capacity: int | None = None
        """Size of the next files; None: the usual one."""
        self._young_from = Position(0)
        """Files that begin here or behind have the sizes that those of a new log have from 0 on."""
        self._offload = offload
        self.segments: list[Segment] = []
        self.closing: list[Segment] = []
        """Closed segments whose index file is not written yet, oldest first."""
        self.next_file: DiskFile | None = None
        """The prepared file of the segment behind the active one."""
        self.prepare_error: OSError | None = None
        """Why the last allocation failed; None if it did not."""
        self.on_prepared: Callable[[], None] = nothing
        """Called on the loop when an allocation has ended, successfully or not."""
        self.guard = ReadGuard()
        self.spares: list[str] = []
        self.is_closed = False
        self._open: OrderedDict[int, Segment] = OrderedDict()
        self._is_preparing = False
        self._after_preparing: list[Callable[[], None]] = []
        self._spare_number = 0
        self._recycling = 0

    @property
    def active(self) -> Segment:
        """The segment that is being written."""
        return self.segments[-1]

    def start(self, segments: list[Segment], spares: list[str]) -> None:
        """Take over what recovery found."""
        self.segments = segments
        self.spares = spares
        self._spare_number = 1 + max((int(name.split("/")[-1][:-6]) for name in spares), default=0)

    def prepare_next(self) -> None:
        """Begin to allocate the next segment's file, unless that is under way or done."""
        if self._is_preparing or self.next_file is not None or self.is_closed:
            return
        active = self.active
        base = active.base if active.file is None else active.end
        self._is_preparing = True
        target = segment_path(self._directory, base)
        capacity = self._wanted(base)
        may_recycle = capacity == self._config.segment_bytes
        spare = self.spares.pop() if self.spares and may_recycle else None
        disk, reserve = self._disk, self._config.reserve_bytes

        def prepared(file: DiskFile | None, error: BaseException | None) -> None:
            self._is_preparing = False
            if self.is_closed:
                if file is not None:
                    file.close()
                return
            if error is not None and not isinstance(error, OSError):
                raise error
            if file is not None and file.size() != self._wanted(base):
                file.close()  # another size is wanted by now; the next one takes its name
                self.prepare_next()
                return
            self._place(file, error)
            waiting, self._after_preparing = self._after_preparing, []
            for action in waiting:
                action()

        self._offload.submit(lambda: prepare_file(disk, reserve, target, capacity, spare), prepared)

    def _place(self, file: DiskFile | None, error: OSError | None) -> None:
        """Give a prepared file to the active segment if it waits for one, else keep it."""
        self.prepare_error = error
        if self.active.file is None and file is not None:
            self.active.file = file
            self.active.end = Position(self.active.base + file.size())
        else:
            self.next_file = file
        self.on_prepared()
        if file is not None:
            self.prepare_next()

    def advance(self) -> Segment:
        """Make the next segment the active one; its file may still be being allocated.

        The caller has made sure that the present one has a file: at most one segment may lack one.
        """
        old = self.active
        assert old.file is not None
        assert self.prepare_error is None or self.next_file is not None
        file, self.next_file = self.next_file, None
        capacity = self._wanted(old.end) if file is None else file.size()
        segment = Segment(self._directory, old.end, capacity)
        segment.file = file
        self.segments.append(segment)
        self._hold_open(old)
        self.prepare_next()
        return segment

    def _wanted(self, base: Position) -> int:
        if self._capacity is not None:
            return self._capacity
        age = base - self._young_from
        return usual_capacity(self._config, base if age < 0 else Position(age))

    def fit_next(self, needed: int) -> None:
        """Give the next file the full size if `needed` bytes would not fit the usual one."""
        if self._wanted(self.active.end) < needed:
            self.set_capacity(self._config.segment_bytes)

    def set_capacity(self, capacity: int | None) -> None:
        """Make the next files `capacity` bytes long, also one already allocated; None: as usual."""
        self._capacity = capacity
        self._fit_prepared()

    def begin_small(self) -> None:
        """Make the files behind the active one as small as those of a new log, and grow again.

        For a log in which segments are closed long before they are full.
        """
        self._young_from = self.active.end
        self._fit_prepared()

    def _fit_prepared(self) -> None:
        if self.next_file is not None and self.next_file.size() != self._wanted(self.active.end):
            self.next_file.close()
            self.next_file = None
            self.prepare_next()

    def fit_active(self, end: Position, done: Callable[[OSError | None], None]) -> None:
        """Make the active segment end at `end` and allocate the next one anew, off the loop.

        Nothing behind `end` may have been written. Calls `done(error)` on the loop. An allocation
        that is under way is completed first.
        """
        if self._is_preparing:
            self._after_preparing.append(lambda: self.fit_active(end, done))
            return
        active, file = self.active, self.active.file
        assert file is not None
        self._is_preparing = True
        next_file, self.next_file = self.next_file, None
        disk, size, change = self._disk, end - active.base, end - active.end
        next_path = segment_path(self._directory, active.end)

        def work() -> None:
            if next_file is not None:
                next_file.close()
            disk.remove(next_path)
            disk.sync_directory(next_path.rpartition("/")[0])
            if change > 0:
                file.allocate(size)
            elif change < 0:
                file.truncate(size)
            file.sync()

        def fitted(_: None, error: BaseException | None) -> None:
            self._is_preparing = False
            if error is not None and not isinstance(error, OSError):
                raise error
            if not self.is_closed:
                self._fitted(active, end, error)
                done(error)

        self._offload.submit(work, fitted)

    def _fitted(self, active: Segment, end: Position, error: OSError | None) -> None:
        if error is None:
            active.end = end
            self.prepare_error = None
        self.prepare_next()

    def segment_of(self, position: Position) -> Segment | None:
        """Return the segment that holds `position`; None if it was deleted."""
        segments = self.segments
        low, high = 0, len(segments)
        while low < high:
            middle = (low + high) // 2
            if segments[middle].base <= position:
                low = middle + 1
            else:
                high = middle
        return segments[low - 1] if low and position < segments[low - 1].end else None

    def closed_above(self, position: Position) -> list[Segment]:
        """Return the closed segments that end above `position`, oldest first."""
        at = bisect_right(self.segments, position, key=attrgetter("end"))
        return self.segments[at:-1]

    def keep_open(self, segment: Segment) -> None:
        """Hold a closed segment's file open; its data was just read, so this does not block.

        Does nothing if the log was closed since. If too many files are open, the next read opens
        the file again.
        """
        if self.is_closed or segment not in self.segments or segment is self.active:
            return
        with suppress(OSError):
            segment.file = segment.file or self._disk.open(segment.path)
            self._hold_open(segment)

    def _hold_open(self, segment: Segment) -> None:
        self._open[segment.base] = segment
        self._open.move_to_end(segment.base)
        while len(self._open) > self._config.open_segments_max:
            _, oldest = self._open.popitem(last=False)
            self._close_file(oldest)

    def _close_file(self, segment: Segment) -> None:
        """Close the file when no sync or read off the loop can still use it."""
        file, segment.file = segment.file, None
        if file is not None:
            self.guard.when_clear(file.close)

    def remove(self, segment: Segment) -> None:
        """Remove a dead segment, and delete or recycle its file once no read uses it."""
        assert segment is not self.active
        self.segments.remove(segment)
        self._open.pop(segment.base, None)
        self._close_file(segment)
        self.guard.when_clear(lambda: self._delete(segment))

    def _delete(self, segment: Segment) -> None:
        if self.is_closed:
            return
        disk, path = self._disk, segment.path
        index = index_path(self._directory, segment.base)
        keep = len(self.spares) + self._recycling < self._config.recycle_count
        keep = keep and segment.end - segment.base == self._config.segment_bytes
        keep = keep and self.prepare_error is None
        self._recycling += keep
        spare = f"{self._directory}/log/{self._spare_number:08d}.spare"
        self._spare_number += 1

        def work() -> bool:
            disk.remove(index)
            if keep:
                disk.rename(path, spare)
            else:
                disk.remove(path)
            disk.sync_directory(f"{self._directory}/log")
            return keep

        def done(kept: bool | None, error: BaseException | None) -> None:
            self._recycling -= keep
            if error is not None and not isinstance(error, OSError):
                raise error
            if kept:
                self.spares.append(spare)
            if not self.is_closed and self.prepare_error is not None:
                self.prepare_next()

        self._offload.submit(work, done)

    def close(self) -> None:
        """Close every file; work under way off the loop fails when it returns."""
        self.is_closed = True
        for segment in self.segments:
            self._close_file(segment)
        if self.next_file is not None:
            self.next_file.close()
            self.next_file = None


def list_segments(disk: Disk, directory: str) -> list[Segment]:
    """Return the segment files of a log, oldest first."""
    segments = []
    for name in disk.list(f"{directory}/log"):
        if name.endswith(".log"):
            file = disk.open(f"{directory}/log/{name}")
            segments.append(Segment(directory, Position(int(name[:20])), file.size()))
            file.close()
    return segments
