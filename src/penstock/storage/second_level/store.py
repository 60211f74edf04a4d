"""The second level as a store: extent files behind a commit log.

    a file is written ─► taken over: directory read, manifest replaced ─► held; may be read
    retention ─► extents are dropped ─► a file of which none is left: manifest replaced, removed

The loop changes the state; files are read and the manifest is written off it, one change after the
other. A file is removed when the reads that may use it have ended, and never before a manifest
without it is durable.

Source: docs/adr/0068 (the port), 0103. It does not write extent files: split.py does.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from crc32c import crc32c

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk, Lane, Offload, Scheduler
from penstock.extents.layout import ENTRY, Entry
from penstock.extents.reader import read_directory, read_file_header
from penstock.storage.commit_log.segments import ReadGuard
from penstock.storage.errors import CorruptFile
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import Chunk
from penstock.storage.read.needs_disk import Loaded, NeedsDisk, as_platform_error
from penstock.storage.second_level.held import HeldExtents
from penstock.storage.second_level.manifest import (
    FileEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
    extent_path,
    manifest_path,
)
from penstock.storage.second_level.reading import (
    ExtentPlace,
    ExtentSearch,
    find_epoch_end,
    read_chunk,
)
from penstock.storage.stores.port import EpochEnd, EpochEndFound, Held, Judged, TimeSearch
from penstock.storage.stores.rules import RetentionRules

EXTENTS_PER_SLICE = 500
"""Of a retention pass: about a millisecond of the loop."""

T = TypeVar("T")
Changed = Callable[[PlatformError | None], None]


class _Directory(NamedTuple):
    """The directory of one file, as its bytes; the entries were checked."""

    file: FileEntry
    data: bytes


class SecondLevel:
    """Implements OlderStore over the extent files of one log. Made by `open_second_level`."""

    def __init__(
        self,
        place: ExtentPlace,
        manifest: Manifest,
        *,
        offload: Offload,
        scheduler: Scheduler,
        guard: ReadGuard,
    ) -> None:
        self._place = place
        self._manifest = manifest
        self._offload = offload
        self._scheduler = scheduler
        self._guard = guard
        """Of all reads of the log: those of its searches by time are entered by the log."""
        self._held = HeldExtents()
        self._changes: deque[Callable[[], None]] = deque()
        self._is_changing = False

    @property
    def file_count(self) -> int:
        """Number of extent files that the manifest names."""
        return len(self._manifest.files)

    @property
    def file_bytes(self) -> int:
        """Bytes of these files."""
        return sum(file.size_bytes for file in self._manifest.files)

    @property
    def next_path(self) -> str:
        """Where the next file to be taken over is to be put, whole and durable."""
        return extent_path(self._place.directory, self._manifest.next_number)

    def held(self, topic_partition: TopicPartition) -> Held | None:
        """Return what is here of a partition."""
        return self._held.held(topic_partition)

    def size_bytes(
        self, topic_partition: TopicPartition, start_offset: int, end_offset: int
    ) -> int:
        """Return the bytes of the extents that overlap [start_offset, end_offset)."""
        return self._held.size_bytes(topic_partition, start_offset, end_offset)

    def read(
        self, partition: PartitionLog, offset: int, max_bytes: int, limit: int
    ) -> Chunk | NeedsDisk:
        """Return what reads batches from `offset` on; see PartitionStore."""
        extent = next(self._held.of(partition.topic_partition, offset))
        place = self._place

        def load(done: Loaded) -> None:
            def finished(chunk: Chunk | None, error: BaseException | None) -> None:
                done(chunk, None if error is None else as_platform_error(error))

            self._off_loop(
                lambda: read_chunk(place, extent, offset, max_bytes, limit), finished, Lane.READ
            )

        return NeedsDisk(max_bytes, load)

    def search(self, partition: PartitionLog, limit: int) -> TimeSearch:
        """Return a search by time; see PartitionStore. Whoever uses it has entered the guard."""
        start = partition.log_start_offset
        extents = list(self._held.of(partition.topic_partition, start, limit))
        return ExtentSearch(self._place, extents, start, limit)

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: int, done: EpochEndFound
    ) -> None:
        """Look into the notes of the extents; see PartitionStore."""
        extents = list(self._held.of(partition.topic_partition, partition.log_start_offset))
        place = self._place

        def finished(end: EpochEnd | None, error: BaseException | None) -> None:
            done(end, None if error is None else as_platform_error(error))

        self._off_loop(lambda: find_epoch_end(place, extents, leader_epoch), finished, Lane.READ)

    def _off_loop(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane,
    ) -> None:
        """Run `work`; no file is removed before it has ended."""
        ticket = self._guard.enter()

        def finished(result: T | None, error: BaseException | None) -> None:
            self._guard.leave(ticket)
            done(result, error)

        self._offload.submit(work, finished, lane)

    def take_over(self, done: Changed) -> None:
        """Take the whole, durable file at `next_path` over; `done(error)` when that is durable.

        Refused, and then removed, where an extent of it does not follow what is held.
        """

        def begin() -> None:
            place, number = self._place, self._manifest.next_number

            def loaded(found: _Directory | None, error: BaseException | None) -> None:
                if found is None:
                    assert error is not None
                    self._end_change(done, as_platform_error(error))
                    return
                refused = self._refusal(found)
                if refused is not None:
                    self._discard(number, lambda: self._end_change(done, refused))
                    return
                files = (*self._manifest.files, found.file)
                self._replace(Manifest(number + 1, files), lambda: self._take(found), done)

            self._off_loop(lambda: _load_directory(place, number), loaded, Lane.WORK)

        self._change(begin)

    def _refusal(self, found: _Directory) -> PlatformError | None:
        for fields in ENTRY.iter_unpack(found.data):
            entry = Entry(*fields)
            if not self._held.follows(entry):
                path = extent_path(self._place.directory, found.file.number)
                reason = f"offset {entry.first_offset} of {entry.topic_partition} does not follow"
                return CorruptFile(path, reason)
        return None

    def _discard(self, number: int, then: Callable[[], None]) -> None:
        place = self._place

        def removed(_: None, __: BaseException | None) -> None:
            then()

        path = extent_path(place.directory, number)
        self._offload.submit(lambda: place.disk.remove(path), removed, Lane.WORK)

    def _take(self, found: _Directory) -> None:
        self._held.add(found.file.number, found.data)

    def judge(self, rules: RetentionRules, done: Judged) -> None:
        """Judge the extents of all partitions, some in a turn; see PartitionStore."""
        drops: list[tuple[TopicPartition, int | None]] = []
        self._judge_slice(rules, self._held.partitions(), drops, done)

    def _judge_slice(
        self,
        rules: RetentionRules,
        left: list[TopicPartition],
        drops: list[tuple[TopicPartition, int | None]],
        done: Judged,
    ) -> None:
        count = 0
        while left and count < EXTENTS_PER_SLICE:
            key = left.pop()
            partition = rules.partitions.get(key)
            if partition is None:
                drops.append((key, None))
                continue
            settings = rules.settings_of(key)
            gone = -1
            for extent in self._held.of(key):
                count += 1
                if not rules.is_needed(partition, settings, extent):
                    gone = extent.end_offset
            if gone >= 0:
                drops.append((key, gone))
        if left:
            self._scheduler.call_soon(lambda: self._judge_slice(rules, left, drops, done))
        else:
            done((lambda: self._drop(drops)) if drops else None)

    def _drop(self, drops: list[tuple[TopicPartition, int | None]]) -> None:
        """Hold what was judged no longer, and remove files of which nothing is left."""
        empty: set[int] = set()
        for key, offset in drops:
            if self._held.held(key) is not None:
                empty.update(self._held.drop_before(key, offset))
        if empty:
            self._change(lambda: self._remove(empty))

    def _remove(self, numbers: set[int]) -> None:
        place = self._place
        left = tuple(file for file in self._manifest.files if file.number not in numbers)

        def remove() -> None:
            for number in sorted(numbers):
                place.disk.remove(extent_path(place.directory, number))

        def removed() -> None:
            self._guard.when_clear(lambda: self._offload.submit(remove, _ignore, Lane.WORK))

        self._replace(self._manifest._replace(files=left), removed, _unheard)

    def _change(self, begin: Callable[[], None]) -> None:
        """Begin a change of the files when those before it have ended."""
        self._changes.append(begin)
        if not self._is_changing:
            self._is_changing = True
            self._changes.popleft()()

    def _replace(self, manifest: Manifest, then: Callable[[], None], done: Changed) -> None:
        """Make a manifest durable, then it counts."""
        place = self._place
        data = encode_manifest(manifest)

        def written(_: None, error: BaseException | None) -> None:
            if error is None:
                self._manifest = manifest
                then()
            self._end_change(done, None if error is None else as_platform_error(error))

        self._offload.submit(
            lambda: place.disk.replace(manifest_path(place.directory), data), written, Lane.WORK
        )

    def _end_change(self, done: Changed, error: PlatformError | None) -> None:
        self._is_changing = False
        done(error)
        if self._changes and not self._is_changing:
            self._is_changing = True
            self._changes.popleft()()


def open_second_level(
    disk: Disk, directory: str, *, offload: Offload, scheduler: Scheduler, guard: ReadGuard
) -> SecondLevel:
    """Return the second level of the log in `directory`, and remove unfinished files. Waits.

    No file is removed while a read that entered `guard` before may use it.

    Raises CorruptFile, NewerFormat, ExtentError, OSError: a file that the manifest names is gone,
    or is not the one.
    """
    place = ExtentPlace(disk, directory)
    manifest = _read_manifest(place)
    second = SecondLevel(place, manifest, offload=offload, scheduler=scheduler, guard=guard)
    named = {extent_path("", file.number).rpartition("/")[2] for file in manifest.files}
    for name in disk.list(f"{directory}/second"):
        if name not in named and name.endswith((".tmp", ".extents")):
            disk.remove(f"{directory}/second/{name}")
    for file in manifest.files:
        found = _load_directory(place, file.number)
        if found.file != file:
            path = extent_path(directory, file.number)
            raise CorruptFile(path, f"the manifest names {file}, this is {found.file}")
        refused = second._refusal(found)  # noqa: SLF001  half of the same constructor
        if refused is not None:
            raise refused
        second._take(found)  # noqa: SLF001
    return second


def _read_manifest(place: ExtentPlace) -> Manifest:
    place.disk.make_directory(f"{place.directory}/second")
    path = manifest_path(place.directory)
    try:
        file = place.disk.open(path)
    except FileNotFoundError:
        return Manifest()
    try:
        return decode_manifest(path, file.read(0, file.size()))
    finally:
        file.close()


def _load_directory(place: ExtentPlace, number: int) -> _Directory:
    """Read header and directory of a file. Waits; raises CorruptFile, ExtentError, OSError."""
    path = extent_path(place.directory, number)
    file = place.disk.open(path)
    try:
        size = file.size()
        read_file_header(path, file.read)
        directory = read_directory(path, size, file.read)
    finally:
        file.close()
    data = b"".join(ENTRY.pack(*entry) for entry in directory.entries)
    return _Directory(FileEntry(number, size, crc32c(data)), data)


def _ignore(_: None, __: BaseException | None) -> None:
    """A file that could not be removed is removed at the next start."""


def _unheard(_: PlatformError | None) -> None:
    """Nobody waits: where the manifest could not be replaced, the next pass judges anew."""
