"""What of a second level goes into the tier next, and the files of these objects, in memory.

    extents behind the tier's end, up to what is decided     waiting()       on the loop
      ─► cut at blocks where they are large, put together where they are small    plan_objects()
      ─► their batches as one extent file                                         build_object()

An object has about OBJECT_BYTES of batches: of one partition, or of many small ones in their order.
A plan ends at batches, and begins where the tier ends, which may be within an extent: members sort
their logs into files each at its own time. The batches are the same on all of them, so whoever goes
on after a failover goes on byte for byte.

Ranges that were rewritten are left out, and what lies behind them: what one member's cleaning has
left is not what another's has.

Source: docs/adr/0117, docs/adr/0121; docs/requirements.md T-1, T-3. Kafka copies a closed segment
of one partition with its indexes (KIP-405).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from penstock.base.ids import TopicPartition
from penstock.base.ports import Buffer
from penstock.extents.layout import Aborted, Notes
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import BatchHeader
from penstock.storage.errors import ReadFailed
from penstock.storage.index.aborted import UNKNOWN
from penstock.storage.second_level.held import Extent
from penstock.storage.second_level.reading import ExtentPlace, open_extent
from penstock.storage.second_level.split import Identity
from penstock.tier.copies.effects import Part, Plan
from penstock.tier.copies.source import Image

OBJECT_BYTES = 64 << 20
"""Of batches in an object, about. A larger batch is an object alone."""

Waiting = Mapping[TopicPartition, Sequence[Extent]]
"""Extents of each partition that follow each other, oldest first."""


def waiting(extents: Sequence[Extent], tier_end: int, stable_end: int) -> list[Extent]:
    """Return the extents of one partition that may be copied: behind the tier's end (exclusive).

    None that goes on beyond `stable_end`, the last stable offset: later markers would decide what
    is in it.
    """
    behind = (one for one in extents if one.end_offset > tier_end)
    return list(
        takewhile(lambda one: not one.is_rewritten and one.end_offset <= stable_end, behind)
    )


def plan_objects(
    place: ExtentPlace,
    extents: Waiting,
    ends: Mapping[TopicPartition, int],
    count_max: int,
    object_bytes: int = OBJECT_BYTES,
) -> list[Plan]:
    """Return what the next objects are to have, partition by partition. Waits; raises ReadFailed.

    `ends` has the end of each partition in the tier.
    """
    plans: list[Plan] = []
    parts: list[Part] = []
    size = 0
    for part, part_bytes in _parts(place, extents, ends, object_bytes):
        if parts and size + part_bytes > object_bytes:
            plans.append(tuple(parts))
            parts, size = [], 0
            if len(plans) == count_max:
                return plans
        size += part_bytes
        if parts and parts[-1].topic_partition == part.topic_partition:
            parts[-1] = parts[-1]._replace(end_offset=part.end_offset)
        else:
            parts.append(part)
    return [*plans, tuple(parts)] if parts else plans


def _parts(
    place: ExtentPlace,
    extents: Waiting,
    ends: Mapping[TopicPartition, int],
    object_bytes: int,
) -> Iterator[tuple[Part, int]]:
    """Yield parts that follow each other, of at most so many bytes each, if batches permit."""
    for key, of_key in sorted(extents.items()):
        for extent in of_key:
            first = _begin(place, extent, ends.get(key, 0))
            for end, size in _ends(place, extent, object_bytes):
                if end > first:
                    yield Part(key, first, end), size
                    first = end


def _begin(place: ExtentPlace, extent: Extent, tier_end: int) -> int:
    """Return where the batch of the tier's end begins: clients delete up to within one, too."""
    if tier_end <= extent.first_offset or tier_end >= extent.end_offset:
        return max(extent.first_offset, tier_end)
    with open_extent(place, extent) as opened:
        header, _ = next(opened.batches_from(tier_end))
        return int(header.base_offset)


def _ends(place: ExtentPlace, extent: Extent, object_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield where an extent may be cut: (offset, bytes since the cut before)."""
    if extent.batch_bytes <= object_bytes:
        yield extent.end_offset, extent.batch_bytes
        return
    size = 0
    with open_extent(place, extent) as opened:
        blocks = opened.summary.blocks
    for first, block_bytes in zip(blocks.first_offsets, blocks.batch_bytes, strict=True):
        if first >= extent.end_offset:
            break
        if size and size + block_bytes > object_bytes:
            yield first, size
            size = 0
        size += block_bytes
    yield extent.end_offset, size


def build_object(place: ExtentPlace, extents: Waiting, plan: Plan, identity: Identity) -> Image:
    """Return the file of an object, of which all is in `extents`. Waits; raises ReadFailed.

    Each block's checksum and each batch's CRC are checked on the way.
    """
    chunks: list[Buffer] = []
    writer = ExtentFileWriter(chunks.extend, *identity)
    epochs = []
    for part in plan:
        written = _WrittenPart(part, writer)
        for extent in extents[part.topic_partition]:
            if extent.end_offset > part.first_offset and extent.first_offset < part.end_offset:
                written.take(place, extent)
        epochs.append(written.finish())
    return Image(chunks, tuple(writer.finish()), tuple(epochs))


class _WrittenPart:
    """One part of an object that is being written."""

    def __init__(self, part: Part, writer: ExtentFileWriter) -> None:
        self._part = part
        self._writer = writer
        self._end = part.first_offset
        self._epochs: list[tuple[int, int]] = []
        self._aborted: tuple[list[int], ...] = ([], [], [], [])
        self._decided_end = int(UNKNOWN)
        writer.begin(part.topic_partition)

    def take(self, place: ExtentPlace, extent: Extent) -> None:
        """Write what an extent has of the part."""
        limit = min(self._part.end_offset, extent.end_offset)
        with open_extent(place, extent) as opened:
            for header, batch in opened.batches_from(self._end):
                if header.base_offset >= limit:
                    break
                self._add(header, batch)
            self._note(opened.summary.notes)
        is_all = self._end == extent.entry.end_offset
        # A marker behind the part's end may have decided what the extent knows to be decided.
        self._decided_end = opened.summary.notes.decided_end if is_all else UNKNOWN

    def _add(self, header: BatchHeader, batch: memoryview) -> None:
        if header.base_offset != self._end:
            raise ReadFailed(f"a batch at {header.base_offset}, and not at {self._end}")
        self._writer.add(batch)
        if not self._epochs or self._epochs[-1][0] != header.leader_epoch:
            self._epochs.append((header.leader_epoch, header.base_offset))
        self._end = header.last_offset + 1

    def _note(self, notes: Notes) -> None:
        """Take over what the markers within the part have aborted."""
        for row in zip(*notes.aborted, strict=True):
            if self._part.first_offset <= row[2] < self._end:
                for column, value in zip(self._aborted, row, strict=True):
                    column.append(value)

    def finish(self) -> tuple[tuple[int, int], ...]:
        """End it; return its epochs."""
        if self._end != self._part.end_offset:
            raise ReadFailed(f"batches end at {self._end}, and not at {self._part.end_offset}")
        self._writer.end(Aborted(*self._aborted), self._decided_end)
        return tuple(self._epochs)
