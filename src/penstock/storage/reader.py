"""The reading end: whole batches of one partition, as pieces of what was read from the file.

    frames in the file   [h|batch] [h|other] [h|batch] [h|batch]
    one read (region)    ^--------------------------------------^   gaps up to 16 KiB are read too
    pieces                  batch               batch    batch      views, headers left out

Reads of the page cache are served on the loop (`read_cached`); what needs the disk comes back as
`NeedsDisk`, whose `load` does the same work in the Offload. The index of the active segment and of
segments that are just closing is in memory; blocks of older segments are cached, and found off
the loop when they are not.

Source: performance measurements in ADR 0002; `preadv2(RWF_NOWAIT)`.
Nothing at or above the written position is ever read, whatever limit is asked for.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.base.ports import Disk, Offload
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptFrame, CorruptLog, OffsetOutOfRange, ReadFailed
from penstock.storage.frames import FRAME_HEADER_BYTES
from penstock.storage.lookup import Block, ClosedSegment, SealedLookup
from penstock.storage.partition_log import Columns, PartitionLog
from penstock.storage.read_check import check_batch, check_place
from penstock.storage.sealed_index import IndexEntry
from penstock.storage.segments import Segment, SegmentStore
from penstock.storage.writer import LogWriter

GAP_BYTES_MAX = 16 << 10
"""Reading over a gap of this size costs about as much as another system call."""
REGIONS_MAX = 256
READ_BYTES_MAX = 8 << 20
"""Most bytes read for one chunk, gaps included, unless its first batch is larger."""
PIECE_BYTES_MIN = 4 << 10
"""Pieces smaller than this on average are joined: one copy is cheaper than sending them."""

T = TypeVar("T")


class Chunk:
    """Whole batches of one partition, in order, beginning with the one that holds the offset."""

    __slots__ = ("buffers", "first_offset", "is_cut", "size")

    def __init__(
        self, buffers: list[memoryview], size: int, first_offset: int, is_cut: bool = False
    ) -> None:
        self.buffers = buffers
        self.size = size
        """Bytes in all buffers together."""
        self.first_offset = first_offset
        """Base offset of the first batch; the offset asked for where there is none."""
        self.is_cut = is_cut
        """Whether there may be more to read than this."""

    @property
    def data(self) -> memoryview:
        """All batches in one buffer; copies when there is more than one piece."""
        if len(self.buffers) == 1:
            return self.buffers[0]
        return memoryview(b"".join(self.buffers))


class Region(NamedTuple):
    """One read: [start, start + length) of the log, and the batches in it."""

    start: int
    length: int
    pieces: list[tuple[int, int]]
    """(place in the region, size) of each batch."""


class Plan(NamedTuple):
    """What to read for a chunk."""

    regions: list[Region]
    size: int
    first_offset: int
    is_cut: bool
    """Whether batches below the limit were left out."""


class Wanted(NamedTuple):
    """What the caller asked for."""

    topic_partition: TopicPartition
    serial: int
    offset: int
    max_bytes: int
    limit_position: int
    is_checked: bool = True
    """Whether checksums are looked at; else only that the frames are the right ones."""


Failed = PlatformError | None
Loaded = Callable[[Chunk | None, Failed], None]


class NeedsDisk:
    """A read that would wait for the disk. `size` is what it was asked to return at most."""

    __slots__ = ("_load", "size")

    def __init__(self, size: int, load: Callable[[Loaded], None]) -> None:
        self.size = size
        self._load = load

    def load(self, done: Loaded) -> None:
        """Read off the loop; `done(chunk, error)` is called on the loop, one of them is None."""
        self._load(done)


def make_plan(columns: Columns, wanted: Wanted) -> Plan:
    """Choose the batches from `wanted.offset` on: whole ones, below the limit, at least one.

    `columns` must hold the offset. The plan is empty when that batch lies above the limit.
    """
    bases, positions, sizes, _ = columns
    entry = columns.entry_of(wanted.offset)
    left = wanted.max_bytes
    limit = wanted.limit_position - FRAME_HEADER_BYTES
    first_offset = bases[entry]
    regions: list[Region] = []
    pieces: list[tuple[int, int]] = []
    start = stop = positions[entry]
    total = 0
    volume = 0
    is_cut = False
    for at in range(entry, len(bases)):
        position = positions[at]
        size = sizes[at]
        if position + size > limit:
            break
        if total and size > left:
            is_cut = True
            break
        if position - stop > GAP_BYTES_MAX:
            regions.append(Region(start, stop - start, pieces))
            volume += stop - start
            start = position
            pieces = []
        stop = position + FRAME_HEADER_BYTES + size
        if total and (volume + stop - start > READ_BYTES_MAX or len(regions) >= REGIONS_MAX):
            stop = start + (pieces[-1][0] + pieces[-1][1] if pieces else 0)
            is_cut = True
            break
        pieces.append((position - start + FRAME_HEADER_BYTES, size))
        total += size
        left -= size
    if pieces:
        regions.append(Region(start, stop - start, pieces))
    return Plan(regions, total, first_offset if total else wanted.offset, is_cut)


def read_plan(
    plan: Plan, wanted: Wanted, base: int, read: Callable[[int, int], memoryview | None]
) -> Chunk | None:
    """Carry out `plan` on the file whose first byte is at `base`; None when `read` gives None.

    Raises:
        CorruptFrame: the file does not hold what the index says, or something else than was
            written.
    """
    buffers: list[memoryview] = []
    for start, length, pieces in plan.regions:
        data = read(start - base, length)
        if data is None:
            return None
        if len(data) != length:
            raise CorruptFrame(start, f"{len(data)} of {length} bytes are there")
        partition = wanted.topic_partition
        if wanted.is_checked:
            for at, size in pieces:
                check_batch(data, at, size, start + at - FRAME_HEADER_BYTES, partition)
        else:
            check_place(data, 0, start, partition)
        buffers += [data[at : at + size] for at, size in pieces]
    if len(buffers) > 1 and plan.size < PIECE_BYTES_MIN * len(buffers):
        buffers = [memoryview(b"".join(buffers))]
    return Chunk(buffers, plan.size, plan.first_offset, plan.is_cut)


class BlockCache:
    """Index blocks of closed segments, the least recently used go first."""

    __slots__ = ("_blocks", "_bytes", "_capacity", "_of_partition")

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._bytes = 0
        self._blocks: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._of_partition: dict[int, list[Block]] = {}

    def find(self, serial: int, offset: int) -> Block | None:
        """Return the block of the partition that holds `offset`, if it is here."""
        for block in self._of_partition.get(serial, ()):
            if block.first_offset <= offset < block.end_offset:
                self._blocks.move_to_end((serial, block.segment_base))
                return block
        return None

    def put(self, serial: int, block: Block) -> None:
        """Keep a block, and let others go when there are too many."""
        key = (serial, block.segment_base)
        if key in self._blocks:
            return
        self._blocks[key] = block
        self._of_partition.setdefault(serial, []).append(block)
        self._bytes += _block_bytes(block)
        while self._bytes > self._capacity and len(self._blocks) > 1:
            oldest, dropped = self._blocks.popitem(last=False)
            self._forget(oldest[0], dropped)

    def drop_segment(self, segment_base: int) -> None:
        """Forget the blocks of a segment that is removed."""
        for key in [key for key in self._blocks if key[1] == segment_base]:
            self._forget(key[0], self._blocks.pop(key))

    def _forget(self, serial: int, block: Block) -> None:
        self._bytes -= _block_bytes(block)
        blocks = self._of_partition[serial]
        blocks.remove(block)
        if not blocks:
            del self._of_partition[serial]


def _block_bytes(block: Block) -> int:
    return 28 * len(block.columns.bases) + 512


class LogReader:
    """Reads of one log. Lives on the loop; the Offload gets arguments, never this object."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        store: SegmentStore,
        writer: LogWriter,
        offload: Offload,
        config: LogConfig,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self._writer = writer
        self._offload = offload
        self.cache = BlockCache(config.index_cache_bytes)
        self._is_checking = config.check_reads
        self.on_damage: Callable[[int, str], None] = _nobody
        """Called on the loop with (position, reason) when bytes are not what was written."""

    def read(
        self, partition: PartitionLog, offset: int, max_bytes: int, limit_position: int
    ) -> Chunk | NeedsDisk:
        """Return batches from the one that holds `offset` on; see SetLog.read."""
        if self._store.is_closed and self._writer.fenced is not None:
            raise self._writer.fenced
        if not partition.log_start_offset <= offset <= partition.log_end_offset:
            raise OffsetOutOfRange(offset, partition.log_start_offset, partition.log_end_offset)
        if offset == partition.log_end_offset:
            return Chunk([], 0, offset)
        limit = min(limit_position, self._writer.written_position)
        key = partition.topic_partition
        wanted = Wanted(key, partition.serial, offset, max_bytes, limit, self._is_checking)
        bases = partition.bases
        if bases and offset >= bases[0]:
            return self._read_segment(self._store.active, partition.columns, wanted)
        for segment in self._store.closing:
            columns = (segment.pending or {}).get(wanted.topic_partition)
            if columns is not None and columns.columns.bases[0] <= offset < columns.end_offset:
                return self._read_segment(segment, columns.columns, wanted)
        block = self.cache.find(partition.serial, offset)
        if block is not None:
            segment_of_block = self._store.segment_of(block.segment_base)
            if segment_of_block is not None:
                return self._read_segment(segment_of_block, block.columns, wanted)
        return self._later(wanted, None)

    def _read_segment(
        self, segment: Segment, columns: Columns, wanted: Wanted
    ) -> Chunk | NeedsDisk:
        plan = make_plan(columns, wanted)
        if not plan.regions:
            return Chunk([], 0, wanted.offset)
        if segment.file is not None:
            try:
                chunk = read_plan(plan, wanted, segment.base, segment.file.read_cached)
            except OSError as error:
                raise as_platform_error(error) from error
            except CorruptFrame as error:
                self.on_damage(error.position, error.reason)
                raise
            if chunk is not None:
                if segment is not self._store.active:
                    chunk.is_cut = True
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
        """Hand the read to the Offload; the guard keeps the files until it has ended."""
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
                self._keep(wanted.serial, result[1], known)
                done(result[0], None)
            elif error is not None:
                done(None, as_platform_error(error))

        self.off_loop(work, finished)

    def off_loop(
        self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """Run `work` in the Offload; no file of the log is removed before it has ended.

        While the log is being opened anew the files may be anything: `done` gets LogBusy.
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
                self.on_damage(error.position, error.reason)
            done(result, error)

        self._offload.submit(work, finished)

    def _keep(self, serial: int, block: Block | None, known: tuple[Segment, Plan] | None) -> None:
        """Remember what was found, so that the next read of the place is served on the loop."""
        segment = None if known is None else known[0]
        if block is not None:
            segment = self._store.segment_of(block.segment_base)
            if segment is not None:
                self.cache.put(serial, block)
        if segment is not None:
            self._store.keep_open(segment)

    def offset_at_position(self, partition: PartitionLog, position: int) -> int:
        """Return the first offset whose frame does not end at or below `position`.

        Waits for the disk where that lies in a closed segment. Raises ReadFailed, CorruptFile.
        """
        known = self._known_offset_at(partition, position)
        if known is not None:
            return known
        try:
            return self._search_at(partition, position)()
        except OSError as error:
            raise as_platform_error(error) from error

    def find_offset_at(
        self, partition: PartitionLog, position: int, done: Callable[[int | None, Failed], None]
    ) -> None:
        """Find the same off the loop; `done(offset, error)` comes at once if memory can tell."""
        known = self._known_offset_at(partition, position)
        if known is not None:
            done(known, None)
            return

        def found(offset: int | None, error: BaseException | None) -> None:
            done(offset, None if error is None else as_platform_error(error))

        self.off_loop(self._search_at(partition, position), found)

    def _known_offset_at(self, partition: PartitionLog, position: int) -> int | None:
        if position >= partition.last_end_position:
            return partition.log_end_offset
        columns = partition.columns
        if not columns.bases or position <= columns.positions[0]:
            return None
        entry = columns.first_entry_at(position)
        if entry == len(columns.bases):
            return partition.log_end_offset
        return max(columns.bases[entry], partition.log_start_offset)

    def _search_at(self, partition: PartitionLog, position: int) -> Callable[[], int]:
        """Return a look through the closed segments from `position` on; it may wait.

        Small reads of an index, asked for by rare requests (the end of an old epoch).
        """
        disk, directory = self._disk, self._directory
        topic_partition = partition.topic_partition
        closed = [
            (ClosedSegment(segment.base, segment.path), segment.pending)
            for segment in self._store.segments[:-1]
            if segment.end > position
        ]
        bases = partition.bases
        in_active = bases[0] if bases else partition.log_end_offset
        log_start_offset = partition.log_start_offset

        def search() -> int:
            for segment, pending in closed:
                if pending is None:
                    lookup = SealedLookup(disk, directory, (segment,))
                    block = next(lookup.blocks(topic_partition, _any_entry), None)
                    columns = None if block is None else block.columns
                else:
                    sealed = pending.get(topic_partition)
                    columns = None if sealed is None else sealed.columns
                entry = 0 if columns is None else columns.first_entry_at(position)
                if columns is not None and entry < len(columns.bases):
                    return max(columns.bases[entry], log_start_offset)
            return max(in_active, log_start_offset)

        return search


def _nobody(_position: int, _reason: str) -> None:
    """Stand in for an owner."""


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
    plan = make_plan(block.columns, wanted)
    return read_file(disk, block.segment_path, block.segment_base, plan, wanted), block


def read_file(disk: Disk, path: str, base: int, plan: Plan, wanted: Wanted) -> Chunk:
    """Carry out `plan` with a handle of its own, waiting for the disk."""
    file = disk.open(path)
    try:
        chunk = read_plan(plan, wanted, base, file.read)
    finally:
        file.close()
    assert chunk is not None
    return chunk


def as_platform_error(error: BaseException) -> PlatformError:
    """Return what a caller may handle; anything that is a bug of ours is raised."""
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, OSError):
        return ReadFailed(str(error))
    raise error
