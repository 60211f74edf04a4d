"""The second level as a store: extent files behind a commit log.

    a file is written ─► taken over: directory read, manifest replaced ─► held; may be read
    retention ─► extents are dropped ─► a file of which none is left: manifest replaced, removed

The loop changes the state, some hundred extents in a turn; files are read and the manifest is
written off it, one change after the other. A file is removed when the reads that may use it have
ended, and never before a manifest without it is durable.

Source: docs/adr/0068 (the port), 0103. It does not write extent files: split.py does.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position, TopicPartition
from penstock.base.ports import Disk, Lane, Offload, Scheduler
from penstock.storage.commit_log.segments import ReadGuard
from penstock.storage.errors import CorruptFile, LogBusy
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import Chunk
from penstock.storage.read.needs_disk import Loaded, NeedsDisk, as_platform_error
from penstock.storage.second_level.changes import Changed, Changes, unheard
from penstock.storage.second_level.damage import ExtentDamage
from penstock.storage.second_level.files import (
    ExtentDirectory,
    load_directory,
    read_manifest,
    write_manifest,
)
from penstock.storage.second_level.fitting import LogStartOf, misfits
from penstock.storage.second_level.held import Extent, HeldExtents
from penstock.storage.second_level.judging import EXTENTS_PER_SLICE, Drops, ExtentJudge
from penstock.storage.second_level.manifest import Cut, Manifest, Reach, extent_path
from penstock.storage.second_level.reading import (
    ExtentPlace,
    ExtentSearch,
    find_epoch_end,
    read_chunk,
    read_decided,
)
from penstock.storage.second_level.scrubbing import ExtentScrub
from penstock.storage.second_level.shrinking import Shrinking
from penstock.storage.second_level.tier_copies import TierCopies
from penstock.storage.stores.port import (
    Decided,
    EpochEnd,
    EpochEndFound,
    Held,
    Judged,
    TimeSearch,
)
from penstock.storage.stores.rules import RetentionRules

T = TypeVar("T")


class SecondLevel:
    """Implements OlderStore over the extent files of one log; `load` before it is used."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        offload: Offload,
        scheduler: Scheduler,
        guard: ReadGuard,
        oldest_position: Callable[[], Position],  # the lowest of the commit log
    ) -> None:
        """`guard`: no file is removed while a read that entered it before may use it."""
        self._oldest_position, self._manifest = oldest_position, Manifest()
        self._place = ExtentPlace(disk, directory)
        self._offload = offload
        self._scheduler = scheduler
        self._guard = guard
        """Of all reads of the log: those of its searches by time are entered by the log."""
        self._held = HeldExtents()
        self._changes = Changes()
        self.damage = ExtentDamage(self._place, lambda: self._held, self._off_loop)
        """The files of which damage is known. Whoever reads them says so."""
        self.copies = TierCopies(self._place, lambda: self._held, self._off_loop)
        self.shrinking = Shrinking(directory, lambda: self._held, self.damage, self._in_slices)
        self.scrub = ExtentScrub(
            *(self._place, self.damage),
            manifest=lambda: self._manifest,
            off_loop=self._off_loop,
            change=self._changes.while_unchanged,
        )
        self._judge = ExtentJudge(lambda: self._held, scheduler)
        self.pins = self._judge.pins
        """Who needs which file."""
        self._empty: set[int] = set()
        """Files of which nothing is held any more, and that the manifest still names."""
        self._is_closed = False

    def load(self) -> None:
        """Read manifest and directories, and remove unfinished files. Waits for the disk.

        Raises CorruptFile, NewerFormat, ExtentError, OSError: a file that the manifest names is
        gone, or is not the one.
        """
        place = self._place
        self._manifest = manifest = read_manifest(place)
        self._held = HeldExtents()
        self._empty.clear()
        named = {extent_path("", file.number).rpartition("/")[2] for file in manifest.files}
        for name in place.disk.list(f"{place.directory}/second"):
            if name not in named and name.endswith((".tmp", ".extents")):
                place.disk.remove(f"{place.directory}/second/{name}")
        for step in manifest.steps():
            if isinstance(step, Cut):
                self._empty.update(self._held.cut(step.topic_partition, step.end_offset))
                continue
            found = load_directory(place, step.number)
            if found.file._replace(place=step.place) != step:
                path = extent_path(place.directory, step.number)
                raise CorruptFile(path, f"the manifest names {step}, this is {found.file}")
            self._empty.update(self._held.add(step.number, found.data))

    def cut(self, ends: Mapping[TopicPartition, int]) -> None:
        """Hold nothing of these partitions from an offset on; see OlderStore. Waits for the disk.

        Raises OSError. The files stay until their last extent goes.
        """
        manifest = self._manifest
        cuts = [Cut(*key, end, manifest.next_number) for key, end in sorted(ends.items())]
        manifest = manifest._replace(cuts=(*manifest.cuts, *cuts))
        write_manifest(self._place, manifest)
        self._manifest = manifest
        for cut in cuts:
            self._empty.update(self._held.cut(cut.topic_partition, cut.end_offset))

    @property
    def is_used(self) -> bool:
        """Whether a file was ever taken over."""
        return self._manifest.next_number > 0

    @property
    def reach(self) -> Reach:
        """How far back the log reaches, with what is here."""
        return self._manifest.reach(self._oldest_position())

    @property
    def file_count(self) -> int:
        """Number of extent files that the manifest names."""
        return len(self._manifest.files)

    @property
    def file_bytes(self) -> int:
        """Bytes of these files."""
        return sum(file.size_bytes for file in self._manifest.files)

    @property
    def next_number(self) -> int:
        """The number of the next file that is taken over: it tells whether one was."""
        return self._manifest.next_number

    def close(self) -> None:
        """Begin no further change: the log is closed, or opened anew. One under way ends."""
        self._is_closed = self.scrub.is_closed = True

    def held(self, topic_partition: TopicPartition) -> Held | None:
        """Return what is here of a partition."""
        return self._held.held(topic_partition)

    def held_partitions(self) -> list[TopicPartition]:
        """Return the partitions with extents."""
        return self._held.partitions()

    def extents(self, topic_partition: TopicPartition) -> list[Extent]:
        """Return the extents of a partition, oldest first."""
        return list(self._held.of(topic_partition))

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
        self, partition: PartitionLog, leader_epoch: LeaderEpoch, done: EpochEndFound
    ) -> None:
        """Look into the notes of the extents; see PartitionStore."""
        extents = list(self._held.of(partition.topic_partition, partition.log_start_offset))
        place = self._place

        def finished(end: EpochEnd | None, error: BaseException | None) -> None:
            done(end, None if error is None else as_platform_error(error))

        self._off_loop(lambda: find_epoch_end(place, extents, leader_epoch), finished, Lane.READ)

    def decided(self, partition: PartitionLog, start: int, limit: int) -> Iterator[Decided]:
        """Look into the notes of the extents; see OlderStore. Whoever uses it entered the guard."""
        extents = list(self._held.of(partition.topic_partition, start, limit))
        return read_decided(self._place, extents)

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
            self.damage.heard(error)
            done(result, error)

        self._offload.submit(work, finished, lane)

    def take_over(
        self,
        unfinished: str,
        log_start_of: LogStartOf,
        done: Changed,
        *,
        instead_of: int | None = None,
    ) -> None:
        """Take over the file at `unfinished`, whose bytes are durable.

        `done(error)` when its name and the manifest with it are; LogBusy where the log is closed.
        Refused where its extents do not fit what is held (fitting.py), and then removed.
        `instead_of`: the number of a file in whose place it comes; it has everything that is held
        of that one, and that one is removed.
        """

        def begin() -> None:
            place, number = self._place, self._manifest.next_number
            if self._is_closed:
                self._refuse(unfinished, done, LogBusy(place.directory))
                return

            def loaded(found: ExtentDirectory | None, error: BaseException | None) -> None:
                if found is not None and instead_of is not None:
                    self._put_instead(found, unfinished, instead_of, done)
                    return
                if found is not None:
                    self._compare(found, unfinished, log_start_of, done)
                    return
                assert error is not None
                self._refuse(unfinished, done, as_platform_error(error))

            self._off_loop(lambda: load_directory(place, number, unfinished), loaded, Lane.WORK)

        self._changes.begin(begin)

    def _compare(
        self, found: ExtentDirectory, unfinished: str, log_start_of: LogStartOf, done: Changed
    ) -> None:
        """Compare a file with what is held; then put it under its name, and into the manifest."""
        refusals: list[PlatformError] = []

        def compared() -> None:
            if self._is_closed:
                refusals.append(LogBusy(self._place.directory))
            if refusals:
                self._refuse(unfinished, done, refusals[0])
            else:
                self._put(found, unfinished, done)

        self._in_slices(self._comparing(found, log_start_of, refusals), compared)

    def _comparing(
        self, found: ExtentDirectory, log_start_of: LogStartOf, refusals: list[PlatformError]
    ) -> Iterator[None]:
        """Look at an extent with each step; end with a refusal where one leaves a gap."""
        for misfit in misfits(self._held, found.data, log_start_of):
            if misfit is not None:
                path = extent_path(self._place.directory, found.file.number)
                refusals.append(CorruptFile(path, misfit))
                return
            yield

    def _put(self, found: ExtentDirectory, unfinished: str, done: Changed) -> None:
        """Give a file its name, replace the manifest, and hold the extents."""
        manifest = self._manifest.added(found.file, self._oldest_position())
        steps = self._noting(self._held.adding(found.file.number, found.data))
        self._put_file(found, unfinished, manifest, steps, done)

    def _put_instead(
        self, found: ExtentDirectory, unfinished: str, old: int, done: Changed
    ) -> None:
        """Put a file in the place of another, of which nothing is left then."""
        number = found.file.number
        missing: list[Extent] = []

        def compared() -> None:
            if self._is_closed:
                self._refuse(unfinished, done, LogBusy(self._place.directory))
            elif missing:
                reason = f"{missing[0]} is not in what comes in the place of file {old}"
                self._refuse(unfinished, done, CorruptFile(unfinished, reason))
            else:
                manifest = self._manifest.replaced(old, found.file)
                steps = self._noting(self._held.replacing(old, number, found.data))
                self._put_file(found, unfinished, manifest, steps, done)

        def comparing() -> Iterator[None]:
            for extent in self._held.missing_in(old, found.data):
                missing.extend(() if extent is None else (extent,))
                yield

        self._in_slices(comparing(), compared)

    def _put_file(
        self,
        found: ExtentDirectory,
        unfinished: str,
        manifest: Manifest,
        steps: Iterator[None],
        done: Changed,
    ) -> None:
        """Give a file its name, make the manifest durable, then take its extents by `steps`."""
        place, number = self._place, found.file.number

        def put() -> None:
            place.disk.rename(unfinished, extent_path(place.directory, number))
            write_manifest(place, manifest)

        def finished(_: None, error: BaseException | None) -> None:
            if error is None:
                self._manifest = manifest
                self._in_slices(steps, lambda: self._taken(done))
                return
            # The disk may have this manifest all the same: another file may not get the number.
            self._manifest = self._manifest._replace(next_number=number + 1)
            self._refuse(unfinished, done, as_platform_error(error))

        self._offload.submit(put, finished, Lane.WORK)

    def _taken(self, done: Changed) -> None:
        """End a change; files whose place others have taken may go."""
        self._changes.end(done, None)
        if self._empty:
            self._changes.begin(self._remove_empty)

    def _refuse(self, unfinished: str, done: Changed, error: PlatformError) -> None:
        self.discard(unfinished, lambda: self._changes.end(done, error))

    def discard(self, unfinished: str, then: Callable[[], None]) -> None:
        """Remove a file that is not taken over, if it is there; then call `then`."""
        disk = self._place.disk

        def removed(_: None, __: BaseException | None) -> None:
            then()

        self._offload.submit(lambda: disk.remove(unfinished), removed, Lane.WORK)

    def _noting(self, steps: Iterator[list[int]]) -> Iterator[None]:
        """Note the files of which no extent is left after each step."""
        for gone in steps:
            self._empty.update(gone)
            yield

    def _in_slices(self, steps: Iterator[None], then: Callable[[], None]) -> None:
        """Do some steps, then let other work run before the next ones; at the end call `then`."""
        if sum(1 for _ in islice(steps, EXTENTS_PER_SLICE)) < EXTENTS_PER_SLICE:
            then()
        else:
            self._scheduler.call_soon(lambda: self._in_slices(steps, then))

    def judge(self, rules: RetentionRules, done: Judged) -> None:
        """Judge the extents of all partitions, some in a turn; see PartitionStore."""

        def judged(drops: Drops) -> None:
            done((lambda: self._drop(drops)) if drops or self._empty else None)

        self._judge.judge(rules, judged)

    def _drop(self, drops: Drops) -> None:
        """Hold what was judged no longer, and remove files of which nothing is left."""

        def dropping() -> Iterator[None]:
            for key, offset in drops:
                if self._held.held(key) is not None:
                    self._empty.update(self._held.drop_before(key, offset))
                yield

        def dropped() -> None:
            if self._empty:
                self._changes.begin(self._remove_empty)

        self._in_slices(dropping(), dropped)

    def _remove_empty(self) -> None:
        place, numbers = self._place, frozenset(self._empty)
        if self._is_closed:
            self._changes.end(unheard, None)
            return

        def remove() -> None:
            for number in sorted(numbers):
                place.disk.remove(extent_path(place.directory, number))

        def clear() -> None:
            # A log that was opened anew has removed them, and may have others of these numbers.
            if not self._is_closed:
                self._offload.submit(remove, _ignore, Lane.WORK)

        def removed() -> None:
            self._empty -= numbers
            for number in numbers:
                self.damage.forget(number)
            self._guard.when_clear(clear)

        self._replace(self._manifest.without(numbers), removed, unheard)

    def _replace(self, manifest: Manifest, then: Callable[[], None], done: Changed) -> None:
        """Make a manifest durable, then it counts."""
        place = self._place

        def written(_: None, error: BaseException | None) -> None:
            if error is None:
                self._manifest = manifest
                then()
            self._changes.end(done, None if error is None else as_platform_error(error))

        self._offload.submit(lambda: write_manifest(place, manifest), written, Lane.WORK)


def _ignore(_: None, __: BaseException | None) -> None:
    """A file that could not be removed is removed at the next start."""
