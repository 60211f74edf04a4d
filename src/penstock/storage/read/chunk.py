"""Whole batches of one partition: a plan made from the index, and the chunk that is read by it.

Every batch is checked before it is returned (read_check.py). No I/O: the caller passes the function
that reads.

Source: ours; ADR 0002 for the pieces, ADR 0020 for the checks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.storage.compiled import check_regions, choose
from penstock.storage.errors import CorruptFrame
from penstock.storage.index.partition_log import Columns
from penstock.storage.read.read_check import check_length, check_place
from penstock.storage.read.regions import Region

PIECE_BYTES_MIN = 4 << 10
"""Pieces smaller than this on average are joined: one copy is cheaper than sending each."""
NO_MORE = -1

CACHED_BYTES_MIN = 64 << 10
"""If the page cache has less than this of a plan, the rest is read from the disk first."""

Gather = Callable[[list[tuple[int, int]]], list[memoryview]]
"""[(position in the file, length)] -> the bytes of each, up to the first read that would block."""


class Chunk:
    """Whole batches of one partition, in order, beginning with the one that holds the offset."""

    __slots__ = (
        "buffers",
        "count",
        "damage",
        "first_offset",
        "is_cold",
        "is_cut",
        "next_offset",
        "size",
    )

    def __init__(
        self, buffers: list[memoryview], size: int, first_offset: int, next_offset: int = NO_MORE
    ) -> None:
        self.buffers = buffers
        self.size = size
        """Bytes in all buffers together."""
        self.first_offset = first_offset
        """Base offset of the first batch; the requested offset if there is no batch."""
        self.next_offset = next_offset
        """Base offset of the next batch if it is known to be readable, or the first offset of the
        next segment; else NO_MORE."""
        self.is_cut = next_offset != NO_MORE
        """Whether there may be more to read."""
        self.count = len(buffers)
        """Batches in all buffers; those of buffers that were joined are told by who joined them."""
        self.is_cold = False
        """Whether the disk was asked, as the page cache did not have it."""
        self.damage: CorruptFrame | None = None
        """The error of the next batch, if the chunk ends because that one is damaged."""

    @property
    def data(self) -> memoryview:
        """All batches in one buffer; copies when there is more than one piece."""
        if len(self.buffers) == 1:
            return self.buffers[0]
        return memoryview(b"".join(self.buffers))


class Plan(NamedTuple):
    """The reads for a chunk."""

    regions: list[Region]
    size: int
    first_offset: int
    next_offset: int
    """Base offset of the first batch below the limit that was left out, or the first offset of the
    next segment; NO_MORE if there is neither."""
    bases: Sequence[int]
    entry: int
    """Index of the plan's first batch in `bases`, the base offsets of the partition's batches."""

    def beginning(self, count: int) -> "Plan":
        """Return the plan of the first `count` regions, which are fewer than all."""
        regions = self.regions[:count]
        sizes = [size for region in regions for _, size in region.pieces]
        next_offset = self.bases[self.entry + len(sizes)]
        return self._replace(regions=regions, size=sum(sizes), next_offset=next_offset)


class Wanted(NamedTuple):
    """A caller's request."""

    topic_partition: TopicPartition
    serial: int
    offset: Offset
    max_bytes: int
    limit_position: Position
    is_checked: bool = True
    """Whether checksums are verified; else only that the frames are the right ones."""


def make_plan(columns: Columns, wanted: Wanted, end_offset: int = NO_MORE) -> Plan:
    """Choose whole batches from `wanted.offset` on, below the limit, at least one.

    `columns` must hold the offset. For a closed segment `end_offset` is the first offset of the
    partition in the next one. The plan is empty if the first batch lies above the limit.
    """
    bases = columns.bases
    entry = columns.entry_of(wanted.offset)
    regions, size, following = choose(
        columns.positions, columns.sizes, entry, wanted.max_bytes, wanted.limit_position
    )
    next_offset = NO_MORE if following < 0 else bases[following]
    if following < 0 and entry + sum([len(region.pieces) for region in regions]) == len(bases):
        next_offset = end_offset
    first_offset = bases[entry] if size else wanted.offset
    return Plan(regions, size, first_offset, next_offset, bases, entry)


def read_plan(plan: Plan, wanted: Wanted, base: Position, gather: Gather) -> Chunk | None:
    """Carry out `plan` on the file whose first byte is at `base`, as far as `gather` can read.

    If a page can not be read without blocking (ADR 0022), the batches before it are returned, or
    None if these are too few. Batches before damage are returned too: otherwise a consumer that
    begins before it could never reach the damaged place and skip it.

    Raises:
        CorruptFrame: the first batch is not the one that the index names, or is damaged.
    """
    found = gather([(start - base, length) for start, length, _ in plan.regions])
    if len(found) < len(plan.regions):
        plan = plan.beginning(len(found))
        if plan.size < CACHED_BYTES_MIN:
            return None
    partition, damage = wanted.topic_partition, None
    if wanted.is_checked:
        try:
            buffers = check_regions(plan.regions, found, partition)
        except CorruptFrame as error:
            plan, damage = _before(plan, error), error
            cut = [data[: region.length] for region, data in zip(plan.regions, found, strict=False)]
            buffers = check_regions(plan.regions, cut, partition)
    else:
        buffers = _trust_regions(plan.regions, found, partition)
    count = len(buffers)
    if count > 1 and plan.size < PIECE_BYTES_MIN * count:
        buffers = [memoryview(b"".join(buffers))]
    chunk = Chunk(buffers, plan.size, plan.first_offset, plan.next_offset)
    chunk.count = count
    chunk.damage = damage
    return chunk


def _before(plan: Plan, error: CorruptFrame) -> Plan:
    """Return the plan of the batches before the damage; raises `error` if there are none."""
    regions: list[Region] = []
    count = size = 0
    for start, _, pieces in plan.regions:
        sound = [
            piece for piece in pieces if start + piece[0] - FRAME_HEADER_BYTES < error.position
        ]
        if sound:
            regions.append(Region(start, sum(sound[-1]), sound))
            count += len(sound)
            size += sum(length for _, length in sound)
        if len(sound) < len(pieces):
            break
    if not regions:
        raise error
    next_offset = plan.bases[plan.entry + count]
    return plan._replace(regions=regions, size=size, next_offset=next_offset)


def _trust_regions(
    regions: list[Region], found: list[memoryview], partition: TopicPartition
) -> list[memoryview]:
    """Return the batches; checks only that each read begins with the right frame."""
    batches: list[memoryview] = []
    for (start, length, pieces), data in zip(regions, found, strict=True):
        check_length(data, start, length)
        check_place(data, 0, start, partition)
        batches += [data[at : at + size] for at, size in pieces]
    return batches
