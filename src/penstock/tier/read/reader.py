"""Reads batches of a partition at an offset from the tier.

    manifest ─► run ─► summary (kept) ─► blocks from the one with the offset on ─► batches

What the manifest says is the root of trust: it has the checksum of the summary, that has those of
the blocks, and each batch has its own. Nothing is given out that does not agree with all of them.
A block whose checksum is wrong is read once more, since the line may have done it.

Source: docs/requirements.md T-6; docs/adr/0117. Kafka asks its plugin for the index files first,
too.

Blocks that were found right are kept, up to a number of bytes, and checked again when they are
used. Checks, and whatever else takes as long as a batch has records, are done by `work`: a caller
with an event loop does them beside it. Before bytes are asked for there must be `room` for them.

Deliberately not here: reading ahead, waiting for a store that does not answer.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.base.ids import TopicPartition
from penstock.extents.layout import BlockIndex, Notes
from penstock.extents.reader import Summary, batches_of, read_block, read_summary
from penstock.record.batch import BatchHeader
from penstock.tier.envelope import ENVELOPE_BYTES
from penstock.tier.errors import LostObject, LyingObject, NotInTier, ObjectNotFound
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.port import READ_BYTES_MAX, ObjectStore
from penstock.tier.read.describe import WINDOW_BYTES, lies_named

SUMMARIES_BYTES_MAX = 64 << 20
"""Of summaries that are kept: 36 bytes for each MiB of data, so this stands for 1.8 TiB."""
BATCHES_MAX = 4_000
"""Of an answer, as in those from the disk: who gets them takes time for each."""
READS_MAX = 2
"""Of the same bytes, before an object counts as damaged."""

T = TypeVar("T")
K = TypeVar("K")
Batches = list[tuple[BatchHeader, memoryview]]


class Found(NamedTuple):
    """What was read. Batches are whole; the first one has the offset, or is the next there is."""

    batches: list[memoryview]
    next_offset: int
    """Behind them, exclusive; the tier's end if nothing is left."""


Room = Callable[[int], AbstractAsyncContextManager[None]]
"""Waits until so many bytes may be held, and counts them until it is left."""
Work = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function that may take some ms, and gives what it returns or raises."""
Examine = Callable[[BatchHeader, memoryview], T | None]
"""Says of a batch what was searched for; None: the search goes on."""


@asynccontextmanager
async def _any_room(size: int) -> AsyncIterator[None]:
    del size
    yield


async def _here(work: Callable[[], T]) -> T:
    return work()


class TierReader:
    """Reads from one store."""

    def __init__(
        self,
        store: ObjectStore,
        summaries_bytes_max: int = SUMMARIES_BYTES_MAX,
        *,
        blocks_bytes_max: int = 0,
        room: Room = _any_room,
        work: Work = _here,
    ) -> None:
        """`blocks_bytes_max`: of blocks that are kept; 0: none is."""
        self._store = store
        self._room = room
        self._work = work
        self._summaries: _Kept[tuple[int, int], Summary] = _Kept(summaries_bytes_max)
        self._blocks: _Kept[tuple[str, int], memoryview] = _Kept(blocks_bytes_max)
        self.kept_count = 0
        """How often a block was there already."""
        self.damage_count = 0
        """How often bytes did not agree, those that a second read had right among them."""

    async def read(
        self, manifest: Manifest, topic_partition: TopicPartition, offset: int, bytes_max: int
    ) -> Found:
        """Return batches from `offset` on, at most `bytes_max` of them but at least one.

        Raises NotInTier, LostObject, LyingObject, StoreError.
        """
        run = manifest.run_at(offset)
        if run is None:
            raise NotInTier(topic_partition, offset)
        while run is not None:
            try:
                found = await self._read_run(run, offset, bytes_max)
            except ObjectNotFound as error:
                raise LostObject(str(run.name), topic_partition, offset) from error
            if found.batches:
                return found
            offset = run.end_offset
            run = manifest.run_at(offset)
        return Found([], offset)

    async def notes(self, run: Run) -> Notes:
        """Return epochs and aborted transactions of a run. Raises as `read`."""
        return (await self._summary(run)).notes

    async def _read_run(self, run: Run, offset: int, bytes_max: int) -> Found:
        blocks = (await self._summary(run)).blocks
        block, found = blocks.block_of(offset), Found([], run.end_offset)
        while block < len(blocks.places) and not found.batches:
            if blocks.first_offsets[block] >= run.end_offset:
                break
            last = _last_block(blocks, block, bytes_max)
            if self._blocks.get((str(run.name), blocks.places[block])) is not None:
                last = block
            reading = self._blocks_reading(run, blocks, (block, last), offset, bytes_max)
            found = await self._again(reading)
            block = last + 1
        return found if found.batches else Found([], run.end_offset)

    async def _again(self, reading: Callable[[], Awaitable[T]]) -> T:
        """Return what a reading gives; one that is refused is tried again. Raises LyingObject."""
        for _ in range(READS_MAX - 1):
            try:
                return await reading()
            except LyingObject:
                self.damage_count += 1
        return await reading()

    def _blocks_reading(
        self,
        run: Run,
        blocks: BlockIndex,
        span: tuple[int, int],
        offset: int,
        bytes_max: int | None = None,
    ) -> Callable[[], Awaitable[Found]]:
        """Return what reads the batches from `offset` on; without `bytes_max` all of them."""

        def chosen(every: Batches) -> Found:
            found = _from_offset(every, offset, run.end_offset)
            return found if bytes_max is None else _bounded(found, bytes_max)

        return partial(self._batches, run, blocks, span, chosen)

    async def _batches(
        self, run: Run, blocks: BlockIndex, span: tuple[int, int], choose: Callable[[Batches], T]
    ) -> T:
        """Return what is chosen of the batches of some blocks, which are checked.

        Choosing is work, too: 8 MiB may be 100,000 batches. Raises StoreError, LyingObject.
        """
        first, last = span
        name, at = str(run.name), blocks.places[first]
        size = blocks.places[last] + blocks.stored_bytes[last] - at
        kept = self._blocks.get((name, at)) if first == last else None
        self.kept_count += kept is not None
        data = await self._fetch(name, at, size) if kept is None else kept

        def check() -> T:
            with lies_named(name):
                every = [
                    one
                    for block in range(first, last + 1)
                    for one in _batches(run, blocks, block, (at, data))
                ]
            return choose(every)

        found: T = await self._work(check)
        if kept is None:
            self._keep(name, blocks, span, data)
        return found

    def _keep(self, name: str, blocks: BlockIndex, span: tuple[int, int], data: memoryview) -> None:
        """Keep blocks that were right, each in memory of its own."""
        begin = blocks.places[span[0]]
        for block in range(span[0], span[1] + 1):
            place, size = blocks.places[block], blocks.stored_bytes[block]
            if self._blocks.takes(size):
                own = memoryview(bytes(data[place - begin : place - begin + size]))
                self._blocks.put((name, place), own, size)

    async def first_at(
        self, manifest: Manifest, offsets: tuple[int, int], timestamp_ms: int, examine: Examine[T]
    ) -> T | None:
        """Return what `examine` says first of batches with such a timestamp or a later one.

        They are asked for in the order of offsets, from the first of `offsets` to the second
        (exclusive). Raises as `read`.
        """
        start, end = offsets
        for run in list(manifest.runs):
            is_within = start < run.end_offset and run.first_offset < end
            if not is_within or run.entry.max_timestamp < timestamp_ms:
                continue
            try:
                found = await self._first_in(run, offsets, timestamp_ms, examine)
            except ObjectNotFound as error:
                key = run.entry.topic_partition
                raise LostObject(str(run.name), key, run.first_offset) from error
            if found is not None:
                return found
        return None

    async def _first_in(
        self, run: Run, offsets: tuple[int, int], timestamp_ms: int, examine: Examine[T]
    ) -> T | None:
        start, end = offsets[0], min(offsets[1], run.end_offset)
        blocks = (await self._summary(run)).blocks
        for block, newest in enumerate(blocks.max_timestamps):
            if newest < timestamp_ms:
                continue
            wanted = partial(_first, (start, end), timestamp_ms, examine)
            found = await self._again(partial(self._batches, run, blocks, (block, block), wanted))
            if found is not None:
                return found
        return None

    async def aborted(
        self, manifest: Manifest, start: int, end: int
    ) -> list[tuple[int, int]] | None:
        """Return aborted transactions that touch [start, end), by producer id and first offset.

        None where the tier does not tell all of them: a marker may lie behind its end. Raises as
        `read`.
        """
        found: list[tuple[int, int]] = []
        async for run, notes in self._notes_from(manifest, start):
            found += [
                (producer_id, first)
                for producer_id, first, marker in zip(*notes.aborted[:3], strict=True)
                if first < end and start <= marker < run.end_offset
            ]
            if decided_by(run, notes) >= end:
                return sorted(dict.fromkeys(found), key=lambda one: one[1])
        return None

    async def decided(self, manifest: Manifest, offset: int, end: int) -> tuple[int, Run | None]:
        """Return up to where (exclusive, at most `end`) transactions are decided.

        By the run with `offset` and those behind it; and the run that says so, with which `aborted`
        tells all that is below. Raises as `read`.
        """
        best, by = 0, None
        async for run, notes in self._notes_from(manifest, offset):
            decided = min(decided_by(run, notes), end)
            if decided > best:
                best, by = decided, run
            if best >= end:
                break
        return best, by

    async def _notes_from(
        self, manifest: Manifest, offset: int
    ) -> AsyncIterator[tuple[Run, Notes]]:
        run = manifest.run_at(offset)
        while run is not None:
            try:
                notes = await self.notes(run)
            except ObjectNotFound as error:
                raise LostObject(str(run.name), run.entry.topic_partition, offset) from error
            yield run, notes
            run = manifest.run_at(run.end_offset)

    async def windows(self, run: Run, start: int, end: int) -> list[tuple[int, int]]:
        """Return the first and last blocks to be read together for [start, end) of a run.

        Each is WINDOW_BYTES at most, or one block. Raises as `read`.
        """
        try:
            blocks = (await self._summary(run)).blocks
        except ObjectNotFound as error:
            raise LostObject(str(run.name), run.entry.topic_partition, start) from error
        end, block = min(end, run.end_offset), blocks.block_of(start)
        found: list[tuple[int, int]] = []
        while block < len(blocks.places) and blocks.first_offsets[block] < end:
            last = _last_block(blocks, block, WINDOW_BYTES)
            found.append((block, last))
            block = last + 1
        return found

    async def window(self, run: Run, span: tuple[int, int], offset: int) -> Found:
        """Return the batches of a window from `offset` on. Raises as `read`."""
        try:
            blocks = (await self._summary(run)).blocks
            return await self._again(self._blocks_reading(run, blocks, span, offset))
        except ObjectNotFound as error:
            raise LostObject(str(run.name), run.entry.topic_partition, offset) from error

    async def _fetch(self, name: str, at: int, size: int) -> memoryview:
        if not 0 < size <= READ_BYTES_MAX:
            raise LyingObject(name, ENVELOPE_BYTES + at, f"{size} bytes are said to be there")
        async with self._room(size):
            return await self._store.read(name, ENVELOPE_BYTES + at, size)

    async def _summary(self, run: Run) -> Summary:
        name, entry = str(run.name), run.entry
        key = run.name.object_id, entry.summary_at

        async def read() -> Summary:
            data = await self._fetch(name, entry.summary_at, entry.summary_bytes)
            with lies_named(name):
                summary = read_summary(name, entry, lambda _at, _size: data)
            known = tuple(epoch for epoch in summary.notes.epochs if epoch[1] < run.end_offset)
            if known != run.epochs:
                raise LyingObject(name, entry.summary_at, f"epochs {known}, and not {run.epochs}")
            return summary

        kept = self._summaries.get(key)
        if kept is None:
            kept = await self._again(read)
            self._summaries.put(key, kept, entry.summary_bytes)
        return kept


def decided_by(run: Run, notes: Notes) -> int:
    """Return up to where (exclusive) a run decides transactions.

    What a run tells of a part that was cut from it is not so: such a one decides nothing.
    """
    return notes.decided_end if run.end_offset == run.entry.end_offset else 0


class _Kept(Generic[K, T]):
    """What was used last, up to a number of bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._kept: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._bytes_max = bytes_max

    def takes(self, size: int) -> bool:
        """Whether something of this size can be kept at all."""
        return size <= self._bytes_max

    def get(self, key: K) -> T | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: K, one: T, size: int) -> None:
        if key in self._kept or not self.takes(size):
            return
        self._kept[key] = one, size
        self._bytes += size
        while self._bytes > self._bytes_max:
            self._bytes -= self._kept.popitem(last=False)[1][1]


def _first(
    offsets: tuple[int, int], timestamp_ms: int, examine: Examine[T], every: Batches
) -> T | None:
    start, end = offsets
    for header, batch in every:
        if (
            header.max_timestamp >= timestamp_ms
            and header.last_offset >= start
            and header.base_offset < end
        ):
            found = examine(header, batch)
            if found is not None:
                return found
    return None


def _from_offset(every: Batches, offset: int, end_offset: int) -> Found:
    """Return the batches from an offset on that begin below another one."""
    wanted = [
        (header.last_offset + 1, batch)
        for header, batch in every
        if header.last_offset >= offset and header.base_offset < end_offset
    ]
    return Found([batch for _, batch in wanted], wanted[-1][0] if wanted else offset)


def _last_block(blocks: BlockIndex, first: int, bytes_max: int) -> int:
    """Return the last block that is read together with the first."""
    limit, size, last = min(bytes_max, WINDOW_BYTES), blocks.stored_bytes[first], first
    while last + 1 < len(blocks.places) and size + blocks.stored_bytes[last + 1] <= limit:
        last += 1
        size += blocks.stored_bytes[last]
    return last


def _batches(
    run: Run, blocks: BlockIndex, block: int, read: tuple[int, memoryview]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a block out of bytes that begin at a place of the file."""
    begin, data = read
    at = blocks.places[block]
    whole = read_block(str(run.name), blocks, block, lambda p, n: data[p - begin : p - begin + n])
    is_last = block + 1 == len(blocks.places)
    limit = run.entry.end_offset if is_last else blocks.first_offsets[block + 1]
    expected = blocks.first_offsets[block]
    for header, batch in batches_of(str(run.name), at, whole):
        if header.base_offset < expected or header.last_offset >= limit:
            reason = f"offset {header.base_offset} in block {block}, which ends at {limit}"
            raise LyingObject(str(run.name), ENVELOPE_BYTES + at, reason)
        expected = header.last_offset + 1
        yield header, batch


def _bounded(found: Found, bytes_max: int) -> Found:
    """Return the first batches up to a number of bytes and of batches, at least one."""
    kept, size = 0, 0
    for batch in found.batches:
        size += len(batch)
        if kept and (size > bytes_max or kept >= BATCHES_MAX):
            break
        kept += 1
    if kept == len(found.batches):
        return found
    following = int.from_bytes(found.batches[kept][:8], "big")
    return Found(found.batches[:kept], following)
