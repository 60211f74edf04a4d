"""Reading a commit log: whole batches of one partition, as views of the bytes read.

    plan        choose batches, from the index alone (chunk.py)
    gather      read what the page cache has, on the loop; every batch is checked
    NeedsDisk   if the page cache lacks the beginning: `load` does the same work in the Offload

The index of the active segment and of segments that are just closing is in memory. Index blocks of
older segments are cached from the moment they close, and read off the loop if they are not cached.

Source: performance measurements in ADR 0002; `preadv2(RWF_NOWAIT)`.
Nothing at or above the written position is ever read, whatever limit is given.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from penstock.base.callbacks import nothing
from penstock.base.ids import Offset, Position
from penstock.base.ports import Disk, DiskFile, Lane, Offload
from penstock.storage.commit_log.segments import Segment, SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptFrame, CorruptLog, OffsetOutOfRange, ReadFailed
from penstock.storage.index.block_cache import BlockCache
from penstock.storage.index.lookup import Block, ClosedSegment, SealedLookup
from penstock.storage.index.partition_log import Columns, PartitionLog
from penstock.storage.index.sealed_index import NOT_THERE, IndexEntry, Sealed
from penstock.storage.read.chunk import NO_MORE, Chunk, Plan, Wanted, make_plan, read_plan
from penstock.storage.read.needs_disk import (
    Failed,
    Loaded,
    NeedsDisk,
    Over,
    Turn,
    as_platform_error,
    at_once,
)
from penstock.storage.stores.older import OlderStores

T = TypeVar("T")


class LogReader:
    """Reads of one log. Lives on the loop; the Offload gets arguments, never this object."""

    def __init__(  # noqa: PLR0913  where it reads, and what it knows of it
        self,
        *,
        disk: Disk,
        directory: str,
        store: SegmentStore,
        writer: LogWriter,
        offload: Offload,
        config: LogConfig,
        older: OlderStores,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self._writer = writer
        self._offload = offload
        self._older = older
        self.cache = BlockCache(config.index_cache_bytes)
        self._is_checking = config.check_reads
        self.on_damage: Callable[[Position, str], None] = _nobody
        """Called on the loop with (position, reason) when a read finds damaged bytes."""
        self.on_failed: Callable[[BaseException | None], None] = nothing
        """Called on the loop with how work off it has ended, None included."""

    def read(
        self, partition: PartitionLog, offset: Offset, max_bytes: int, limit_position: Position
    ) -> Chunk | NeedsDisk:
        """Return batches, the first being the one that holds `offset`; see SetLog.read."""
        if self._store.is_closed and self._writer.fenced is not None:
            raise self._writer.fenced
        if not partition.commit_log_start_offset <= offset <= partition.log_end_offset:
            return self._read_outside(partition, offset, max_bytes, limit_position)
        if offset == partition.log_end_offset:
            return Chunk([], 0, offset)
        limit = min(limit_position, self._writer.written_position)
        key = partition.topic_partition
        wanted = Wanted(key, partition.serial, offset, max_bytes, limit, self._is_checking)
        bases = partition.bases
        if bases and offset >= bases[0]:
            return self._read_segment(self._store.active, partition.columns, wanted, NO_MORE)
        for segment in self._store.closing:
            sealed = (segment.pending or {}).get(wanted.topic_partition)
            if sealed is not None and sealed.columns.bases[0] <= offset < sealed.end_offset:
                return self._read_segment(segment, sealed.columns, wanted, sealed.end_offset)
        block = self.cache.find(partition.serial, key, offset)
        if block is not None:
            segment_of_block = self._store.segment_of(block.segment_base)
            if segment_of_block is not None:
                columns, end_offset = block.columns, block.end_offset
                return self._read_segment(segment_of_block, columns, wanted, end_offset)
        return self._later(wanted, None)

    def _read_outside(
        self, partition: PartitionLog, offset: Offset, max_bytes: int, limit_position: Position
    ) -> Chunk | NeedsDisk:
        """Read batches that the commit log does not have from another store, if it has them."""
        if partition.log_start_offset <= offset < partition.commit_log_start_offset:
            return self._older.read(partition, offset, max_bytes, limit_position)
        raise OffsetOutOfRange(offset, partition.log_start_offset, partition.log_end_offset)

    def _read_segment(
        self, segment: Segment, columns: Columns, wanted: Wanted, end_offset: int
    ) -> Chunk | NeedsDisk:
        plan = make_plan(columns, wanted, end_offset)
        if not plan.regions:
            return Chunk([], 0, wanted.offset)
        if segment.file is not None:
            try:
                chunk = read_plan(plan, wanted, segment.base, segment.file.gather_cached)
            except OSError as error:
                raise as_platform_error(error) from error
            except CorruptFrame as error:
                self._tell(error)
                raise
            if chunk is not None:
                self._tell(chunk.damage)
                return chunk
        return self._later(wanted, (segment, plan))

    def _later(self, wanted: Wanted, known: tuple[Segment, Plan] | None) -> NeedsDisk:
        size = wanted.max_bytes if known is None else known[1].size
        return NeedsDisk(size, lambda done: self._load(wanted, known, done))

    def closed(self) -> tuple[ClosedSegment, ...]:
        """Return the closed segments that have an index file, oldest first."""
        segments = self._store.segments
        return tuple(ClosedSegment(s.base, s.path) for s in segments[:-1] if s.pending is None)

    def _load(self, wanted: Wanted, known: tuple[Segment, Plan] | None, done: Loaded) -> None:
        """Run the read in the Offload; the guard keeps the files until it has ended."""
        disk, directory, closed = self._disk, self._directory, self.closed()
        known_file = None if known is None else (known[0].base, known[0].path, known[1])

        def work() -> tuple[Chunk, Block | None]:
            if known_file is not None:
                base, path, plan = known_file
                return read_file(disk, path, base, plan, wanted), None
            return _find_and_read(disk, directory, closed, wanted)

        def finished(
            result: tuple[Chunk, Block | None] | None, error: BaseException | None
        ) -> None:
            if result is not None:
                self._tell(result[0].damage)
                self._keep(wanted.serial, result[1], known)
                done(result[0], None)
            elif error is not None:
                done(None, as_platform_error(error))

        self.off_loop(work, finished, Lane.READ)

    def off_loop(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        """Run `work` in the Offload; no file of the log is removed before it has ended.

        While the log is being opened anew the files are in flux: `done` gets LogBusy.
        """
        refusal = self._writer.fenced
        if refusal is not None and self._store.is_closed:
            done(None, refusal)
            return
        guard = self._store.guard
        ticket = guard.enter()

        def finished(result: T | None, error: BaseException | None) -> None:
            guard.leave(ticket)
            if isinstance(error, CorruptFrame):
                self._tell(error)
            self.on_failed(error)
            done(result, error)

        self._offload.submit(work, finished, lane)

    def _tell(self, damage: CorruptFrame | None) -> None:
        if damage is not None:
            self.on_damage(damage.position, damage.reason)

    def _keep(self, serial: int, block: Block | None, known: tuple[Segment, Plan] | None) -> None:
        """Cache what was found, so that the next read of the place runs on the loop."""
        segment = None if known is None else known[0]
        if block is not None:
            segment = self._store.segment_of(block.segment_base)
            if segment is not None:
                self.cache.put(serial, block)
        if segment is not None:
            self._store.keep_open(segment)

    def known_offset_at(self, partition: PartitionLog, position: Position) -> Offset | None:
        """Return the first offset whose frame does not end at or below `position`.

        None if memory can not tell: it lies in a closed segment whose index is on the disk.
        """
        if position >= partition.last_end_position:
            return partition.log_end_offset
        for segment in self._store.closed_above(position):
            sealed = self.sealed_in(segment, partition)
            if sealed is None:
                return None
            columns = sealed.columns
            entry = columns.first_entry_at(position)
            if entry < len(columns.bases):
                return max(Offset(columns.bases[entry]), partition.commit_log_start_offset)
        return _offset_in_active(partition, position)

    def sealed_in(self, segment: Segment, partition: PartitionLog) -> Sealed | None:
        """Return what memory has of the partition in a closed segment; None if it can not tell."""
        key = partition.topic_partition
        if segment.pending is None:
            return self.cache.sealed_in(segment.base, partition.serial, key)
        return segment.pending.get(key, NOT_THERE)

    def segment_with(self, partition: PartitionLog, offset: Offset) -> Position | None:
        """Return the base of the closed segment with the offset; None if memory can not tell."""
        key = partition.topic_partition
        for segment in self._store.closing:
            sealed = (segment.pending or {}).get(key)
            if sealed is not None and sealed.columns.bases[0] <= offset < sealed.end_offset:
                return segment.base
        block = self.cache.find(partition.serial, key, offset)
        return None if block is None else block.segment_base

    def find_offset_at(
        self,
        partition: PartitionLog,
        position: Position,
        done: Callable[[Offset | None, Failed], None],
        turn: Turn = at_once,
    ) -> None:
        """Find the same off the loop; `done(offset, error)` comes at once if memory can tell."""
        known = self.known_offset_at(partition, position)
        if known is not None:
            done(known, None)
            return

        def begin(over: Over) -> None:
            def found(
                result: tuple[Offset, Block | None] | None, error: BaseException | None
            ) -> None:
                if result is not None:
                    self._keep(partition.serial, result[1], None)
                    done(result[0], None)
                elif error is not None:
                    done(None, as_platform_error(error))
                over()

            self.off_loop(self._search_at(partition, position), found, Lane.READ)

        turn(begin, lambda: done(None, ReadFailed("nobody waits for it any more")))

    def _search_at(
        self, partition: PartitionLog, position: Position
    ) -> Callable[[], tuple[Offset, Block | None]]:
        """Return a search through the closed segments from `position` on, which may wait.

        It does small reads of an index.
        """
        disk, directory = self._disk, self._directory
        topic_partition = partition.topic_partition
        closed = [
            (ClosedSegment(segment.base, segment.path), segment.pending)
            for segment in self._store.closed_above(position)
        ]
        in_active = _offset_in_active(partition, position)
        start_offset = partition.commit_log_start_offset

        def search() -> tuple[Offset, Block | None]:
            for segment, pending in closed:
                block = None
                if pending is None:
                    lookup = SealedLookup(disk, directory, (segment,))
                    block = next(lookup.blocks(topic_partition, _any_entry), None)
                    columns = None if block is None else block.columns
                else:
                    sealed = pending.get(topic_partition)
                    columns = None if sealed is None else sealed.columns
                entry = 0 if columns is None else columns.first_entry_at(position)
                if columns is not None and entry < len(columns.bases):
                    return max(Offset(columns.bases[entry]), start_offset), block
            return in_active, None

        return search


def _offset_in_active(partition: PartitionLog, position: Position) -> Offset:
    """Return the same offset where no closed segment has a batch that ends above `position`."""
    columns = partition.columns
    entry = columns.first_entry_at(position)
    if entry == len(columns.bases):
        return partition.log_end_offset
    return max(Offset(columns.bases[entry]), partition.commit_log_start_offset)


def _nobody(_position: Position, _reason: str) -> None:
    """Stand in for a callback that nobody has set."""


def _any_entry(_: IndexEntry) -> bool:
    return True


def _find_and_read(
    disk: Disk, directory: str, closed: Sequence[ClosedSegment], wanted: Wanted
) -> tuple[Chunk, Block]:
    """Off the loop: find the block in the sealed indexes, then read."""
    block = SealedLookup(disk, directory, closed).find(wanted.topic_partition, wanted.offset)
    if block is None:
        where = closed[-1].base if closed else 0
        what = f"no segment holds offset {wanted.offset} of partition {wanted.topic_partition[1]}"
        raise CorruptLog(directory, where, f"{what} of topic {wanted.topic_partition[0].hex()}")
    plan = make_plan(block.columns, wanted, block.end_offset)
    return read_file(disk, block.segment_path, block.segment_base, plan, wanted), block


def read_file(disk: Disk, path: str, base: Position, plan: Plan, wanted: Wanted) -> Chunk:
    """Carry out `plan` with a file handle of its own; waits for the disk."""
    file = disk.open(path)
    try:
        chunk = read_plan(plan, wanted, base, partial(_read_each, file))
    finally:
        file.close()
    assert chunk is not None
    return chunk


def _read_each(file: DiskFile, places: list[tuple[int, int]]) -> list[memoryview]:
    return [file.read(position, length) for position, length in places]
