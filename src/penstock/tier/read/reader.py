"""Reads batches of a partition at an offset from the tier.

    manifest ─► run ─► summary (kept) ─► blocks from the one with the offset on ─► batches

What the manifest says is the root of trust: it has the checksum of the summary, that has those of
the blocks, and each batch has its own. Nothing is given out that does not agree with all of them.
A block whose checksum is wrong is read once more, since the line may have done it.

Source: spec of the tier T-6; docs/adr/0117. Kafka asks its plugin for the index files first, too.

Deliberately not here: caching of blocks, reading ahead, waiting for a store that does not answer.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, TypeVar

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
READS_MAX = 2
"""Of the same bytes, before an object counts as damaged."""

T = TypeVar("T")


class Found(NamedTuple):
    """What was read. Batches are whole; the first one has the offset, or is the next there is."""

    batches: list[memoryview]
    next_offset: int
    """Behind them, exclusive; the tier's end if nothing is left."""


class TierReader:
    """Reads from one store."""

    def __init__(self, store: ObjectStore, summaries_bytes_max: int = SUMMARIES_BYTES_MAX) -> None:
        self._store = store
        self._summaries = _Summaries(summaries_bytes_max)
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
            found = await self._again(self._blocks_reading(run, blocks, (block, last), offset))
            found = _bounded(found, bytes_max)
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
        self, run: Run, blocks: BlockIndex, span: tuple[int, int], offset: int
    ) -> Callable[[], Awaitable[Found]]:
        first, last = span
        name, at = str(run.name), blocks.places[first]
        size = blocks.places[last] + blocks.stored_bytes[last] - at

        async def read() -> Found:
            data = await self._fetch(name, at, size)
            with lies_named(name):
                every = [
                    one
                    for block in range(first, last + 1)
                    for one in _batches(run, blocks, block, (at, data))
                ]
            wanted = [
                (header.last_offset + 1, batch)
                for header, batch in every
                if header.last_offset >= offset and header.base_offset < run.end_offset
            ]
            return Found([batch for _, batch in wanted], wanted[-1][0] if wanted else offset)

        return read

    async def _fetch(self, name: str, at: int, size: int) -> memoryview:
        if not 0 < size <= READ_BYTES_MAX:
            raise LyingObject(name, ENVELOPE_BYTES + at, f"{size} bytes are said to be there")
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


class _Summaries:
    """The summaries that were used last."""

    def __init__(self, bytes_max: int) -> None:
        self._kept: OrderedDict[tuple[int, int], tuple[Summary, int]] = OrderedDict()
        self._bytes = 0
        self._bytes_max = bytes_max

    def get(self, key: tuple[int, int]) -> Summary | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: tuple[int, int], summary: Summary, size: int) -> None:
        if key in self._kept or size > self._bytes_max:
            return
        self._kept[key] = summary, size
        self._bytes += size
        while self._bytes > self._bytes_max:
            self._bytes -= self._kept.popitem(last=False)[1][1]


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
    """Return the first batches up to a number of bytes, at least one."""
    kept, size = 0, 0
    for batch in found.batches:
        size += len(batch)
        if kept and size > bytes_max:
            break
        kept += 1
    if kept == len(found.batches):
        return found
    following = int.from_bytes(found.batches[kept][:8], "big")
    return Found(found.batches[:kept], following)
