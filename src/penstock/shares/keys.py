"""Ordered shares: which records of a key wait for which, as chains through the cells.

    key ─► last record of it in the window that is not over
    cell ─► distance to the next one of its key that waits; 0 if none

The first record of a key may be handed out, all others are HELD. It keeps its key busy until it is
over, also while it waits to be tried again: order is kept by blocking the key, not the partition.
Keys are known by 32 bits of hash. Two keys with one hash wait for each other, which costs time and
breaks nothing.

Source: ours; RocketMQ blocks the whole queue (PopBufferMergeService, orderly consumption).
"""

from collections.abc import Mapping

from penstock.shares.cells import HELD, MASK, SHIFT, Chunk


class Chains:
    """The busy keys of one share."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: dict[int, int] = {}

    def add(self, chunks: Mapping[int, Chunk], chunk: Chunk, place: int, offset: int) -> bool:
        """Put an offset behind those of its key; return whether there is one before it."""
        key = chunk.hashes[place]
        chunk.nexts[place] = 0
        before = self.last.get(key)
        self.last[key] = offset
        if before is None:
            return False
        chunks[before >> SHIFT].nexts[before & MASK] = offset - before
        return True

    def after(
        self, chunks: Mapping[int, Chunk], chunk: Chunk, place: int, offset: int
    ) -> int | None:
        """Return the next HELD offset behind the first of a key, which is over; None if none."""
        key = chunk.hashes[place]
        while (distance := chunk.nexts[place]) != 0:
            offset += distance
            chunk, place = chunks[offset >> SHIFT], offset & MASK
            if chunk.states[place] == HELD:
                return offset
        if self.last.get(key) == offset:
            del self.last[key]
        return None

    def clear(self) -> None:
        """Forget all keys."""
        self.last.clear()
