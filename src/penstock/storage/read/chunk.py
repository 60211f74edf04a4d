"""Whole batches of one partition, planned from the index and made of what was read for them.

Every batch is checked before anybody gets it: read_check.py. No I/O: the caller lends a function
that reads.

Source: ours; ADR 0002 for the pieces, ADR 0020 for the checks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.storage.commit_log.frames import FRAME_HEADER_BYTES
from penstock.storage.compiled import check_regions, choose
from penstock.storage.errors import CorruptFrame
from penstock.storage.index.partition_log import Columns
from penstock.storage.read.read_check import check_length, check_place
from penstock.storage.read.regions import Region

PIECE_BYTES_MIN = 4 << 10
"""Pieces smaller than this on average are joined: one copy is cheaper than sending them."""
NO_MORE = -1

CACHED_BYTES_MIN = 64 << 10
"""Less than this of a plan is not sent by itself: the rest of it is read from the disk first."""

Gather = Callable[[list[tuple[int, int]]], list[memoryview]]
"""(position in the file, length) of each place -> their bytes, up to the first that would wait."""


class Chunk:
    """Whole batches of one partition, in order, beginning with the one that holds the offset."""

    __slots__ = ("buffers", "damage", "first_offset", "is_cut", "next_offset", "size")

    def __init__(
        self, buffers: list[memoryview], size: int, first_offset: int, next_offset: int = NO_MORE
    ) -> None:
        self.buffers = buffers
        self.size = size
        """Bytes in all buffers together."""
        self.first_offset = first_offset
        """Base offset of the first batch; the offset asked for where there is none."""
        self.next_offset = next_offset
        """Base offset of the batch behind these where that is known to be readable, or where the
        next segment goes on; else NO_MORE."""
        self.is_cut = next_offset != NO_MORE
        """Whether there may be more to read than this."""
        self.damage: CorruptFrame | None = None
        """What is wrong with the batch behind these, where they end for that."""

    @property
    def data(self) -> memoryview:
        """All batches in one buffer; copies when there is more than one piece."""
        if len(self.buffers) == 1:
            return self.buffers[0]
        return memoryview(b"".join(self.buffers))


class Plan(NamedTuple):
    """What to read for a chunk."""

    regions: list[Region]
    size: int
    first_offset: int
    next_offset: int
    """Of the first batch below the limit that was left out, or where the next segment begins;
    NO_MORE when there is neither."""
    bases: Sequence[int]
    entry: int
    """Where in `bases`, the first offsets of the partition's batches, the plan begins."""

    def beginning(self, count: int) -> "Plan":
        """Return the plan of its first regions alone, fewer than there are."""
        regions = self.regions[:count]
        sizes = [size for region in regions for _, size in region.pieces]
        next_offset = self.bases[self.entry + len(sizes)]
        return self._replace(regions=regions, size=sum(sizes), next_offset=next_offset)


class Wanted(NamedTuple):
    """What the caller asked for."""

    topic_partition: TopicPartition
    serial: int
    offset: int
    max_bytes: int
    limit_position: int
    is_checked: bool = True
    """Whether checksums are looked at; else only that the frames are the right ones."""


def make_plan(columns: Columns, wanted: Wanted, end_offset: int = NO_MORE) -> Plan:
    """Choose the batches from `wanted.offset` on: whole ones, below the limit, at least one.

    `columns` must hold the offset. `end_offset` is where the segment behind theirs goes on, for a
    closed one. The plan is empty when the first batch lies above the limit.
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


def read_plan(plan: Plan, wanted: Wanted, base: int, gather: Gather) -> Chunk | None:
    """Carry out `plan` on the file whose first byte is at `base`, as far as `gather` goes.

    A page may be out of reach for a moment (ADR 0022): what lies before it is an answer too. None
    where that is too little. What lies before damage is an answer as well: else nobody who begins
    there could come to the damaged place, and go on behind it.

    Raises:
        CorruptFrame: the file does not hold what the index says of the first batch, or something
            else than was written.
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
    if len(buffers) > 1 and plan.size < PIECE_BYTES_MIN * len(buffers):
        buffers = [memoryview(b"".join(buffers))]
    chunk = Chunk(buffers, plan.size, plan.first_offset, plan.next_offset)
    chunk.damage = damage
    return chunk


def _before(plan: Plan, error: CorruptFrame) -> Plan:
    """Return the plan of the batches before the damage; raises `error` where there are none."""
    regions: list[Region] = []
    count = size = 0
    for start, _, pieces in plan.regions:
        sound = [one for one in pieces if start + one[0] - FRAME_HEADER_BYTES < error.position]
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
    """Return the batches; only that each read begins with the right frame is looked at."""
    batches: list[memoryview] = []
    for (start, length, pieces), data in zip(regions, found, strict=True):
        check_length(data, start, length)
        check_place(data, 0, start, partition)
        batches += [data[at : at + size] for at, size in pieces]
    return batches
