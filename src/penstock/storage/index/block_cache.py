"""Index blocks of closed segments in memory, so that a read need not look for them on disk.

Source: ours, ADR 0022.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.storage.index.lookup import Block
from penstock.storage.index.sealed_index import NOT_THERE, Sealed, block_bytes

SEGMENTS_MAX = 8
"""Segments whose whole index is kept: a read looks into each of them."""
_BLOCK_BYTES = 512
"""Memory that a block takes beside its columns."""


class SealedSegment(NamedTuple):
    """The whole index of a closed segment."""

    base: Position
    path: str
    parts: Mapping[TopicPartition, Sealed]
    index_bytes: int

    def block(self, sealed: Sealed) -> Block:
        """Return one of its parts, as a look-up finds it."""
        columns, end_offset, aborted, stable_end = sealed
        place = self.base, self.path, Offset(columns.bases[0]), end_offset
        return Block(*place, columns, aborted, stable_end)


class BlockCache:
    """Index blocks of closed segments; the least recently used are evicted first.

    The whole index of the last few closed segments is kept in half of the space: consumers close to
    the end read these next, and need no look-up on disk then.
    """

    __slots__ = ("_blocks", "_bytes", "_capacity", "_of_partition", "_segments", "_segments_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._bytes = 0
        self._blocks: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._of_partition: dict[int, list[Block]] = {}
        self._segments: dict[Position, SealedSegment] = {}
        """By base, in the order in which the segments were closed."""
        self._segments_bytes = 0

    def find(self, serial: int, key: TopicPartition, offset: Offset) -> Block | None:
        """Return the block of the partition that holds `offset`, if it is here."""
        for segment in self._segments.values():
            sealed = segment.parts.get(key)
            if sealed is not None:
                first_offset = sealed.columns.bases[0]
                if first_offset <= offset < sealed.end_offset:
                    return segment.block(sealed)
        for block in self._of_partition.get(serial, ()):
            if block.first_offset <= offset < block.end_offset:
                self._blocks.move_to_end((serial, block.segment_base))
                return block
        return None

    def sealed_in(self, segment_base: Position, serial: int, key: TopicPartition) -> Sealed | None:
        """Return what a segment has of a partition; NOT_THERE if it is known to have nothing.

        None if that is not here.
        """
        segment = self._segments.get(segment_base)
        if segment is not None:
            return segment.parts.get(key, NOT_THERE)
        block = self._blocks.get((serial, segment_base))
        if block is None:
            return None
        self._blocks.move_to_end((serial, segment_base))
        return Sealed(block.columns, block.end_offset, block.aborted, block.stable_end)

    def put(self, serial: int, block: Block) -> None:
        """Keep a block; evict others if there are too many."""
        key = (serial, block.segment_base)
        if key in self._blocks:
            return
        self._blocks[key] = block
        self._of_partition.setdefault(serial, []).append(block)
        self._bytes += _block_bytes(block)
        while self._bytes + self._segments_bytes > self._capacity and len(self._blocks) > 1:
            oldest, dropped = self._blocks.popitem(last=False)
            self._forget(oldest[0], dropped)

    def put_segment(self, segment: SealedSegment) -> None:
        """Keep the index of a segment that was just closed; evict the oldest such index."""
        room = self._capacity // 2
        if segment.index_bytes > room:
            return
        self._segments[segment.base] = segment
        self._segments_bytes += segment.index_bytes
        while self._segments_bytes > room or len(self._segments) > SEGMENTS_MAX:
            self._drop_whole(next(iter(self._segments)))

    def _drop_whole(self, base: Position) -> None:
        dropped = self._segments.pop(base, None)
        if dropped is not None:
            self._segments_bytes -= dropped.index_bytes

    def drop_segment(self, segment_base: Position) -> None:
        """Forget the blocks of a segment that is removed."""
        self._drop_whole(segment_base)
        for key in [key for key in self._blocks if key[1] == segment_base]:
            self._forget(key[0], self._blocks.pop(key))

    def _forget(self, serial: int, block: Block) -> None:
        self._bytes -= _block_bytes(block)
        blocks = self._of_partition[serial]
        blocks.remove(block)
        if not blocks:
            del self._of_partition[serial]


def _block_bytes(block: Block) -> int:
    return block_bytes(len(block.columns.bases), len(block.aborted.last_offsets)) + _BLOCK_BYTES
