"""Which records of a share are in a state, or in a member's hands, and how often they were.

Source: none.
"""

from collections.abc import Iterator
from re import compile as compiled

from penstock.shares.cells import ACQUIRED, CELLS, DYING, FREE, HELD, SHIFT, WAITING
from penstock.shares.runs import Run, Runs, clipped, runs_of
from penstock.shares.share import Share
from penstock.shares.state import NONCE_HALF, NONCE_MASK

_ACQUIRED, _DYING = compiled(b"%c+" % ACQUIRED), compiled(b"%c+" % DYING)
_OPEN = bytes(255 * (state in {FREE, ACQUIRED, HELD, WAITING}) for state in range(256))
"""Translates a state to 255 if the record may be handed out again, or is in somebody's hands."""
DELIVERIES_TOLD = 10
"""Counts of deliveries that are told apart; the last one is this or more."""


def first_free(share: Share) -> int | None:
    """Return the lowest record that may be handed out again; None if there is none."""
    if not share.free:
        return None
    for number in range(max(share.first_free, share.base >> SHIFT), (share.end >> SHIFT) + 1):
        chunk = share.chunks.get(number)
        if chunk is not None and chunk.free:
            start = number << SHIFT
            place = chunk.states.find(FREE, max(share.base - start, 0), share.end - start)
            if place >= 0:
                return start + place
    return None


def held_by(share: Share, member: int, number: int, before: int) -> list[Run]:
    """Return the records of chunk `number` that a member holds by hand-outs before a number."""
    chunk = share.chunks.get(number)
    if chunk is None:
        return []
    start = number << SHIFT
    first, stop = max(share.base - start, 0), min(CELLS, share.end - start)
    offsets = [
        start + place
        for found in _ACQUIRED.finditer(chunk.states, first, stop)
        for place in range(*found.span())
        if chunk.members[place] == member
        if (before - 1 - chunk.nonces[place]) & NONCE_MASK < NONCE_HALF
    ]
    return runs_of(offsets)


def dying_in(share: Share, runs: Runs) -> Iterator[Run]:
    """Yield which of some records wait for their copy to be confirmed."""
    for chunk, i, j, first in share.pieces(clipped(runs, share.base, share.end)):
        for found in _DYING.finditer(chunk.states, i, j):
            yield first + found.start() - i, first + found.end() - i


def delivered(share: Share) -> Iterator[list[int]]:
    """Yield, a chunk at a time, how many records that are not over were handed out how often.

    Entry i is of the records that were handed out i + 1 times; there are DELIVERIES_TOLD entries.
    The share may change between two steps: the sum is of no single moment then.
    """
    for number in [*share.chunks]:
        chunk = share.chunks.get(number)
        start = number << SHIFT
        first, stop = max(share.base - start, 0), min(CELLS, share.end - start)
        if chunk is None or first >= stop:
            continue
        opened = chunk.states[first:stop].translate(_OPEN)
        both = int.from_bytes(opened, "big") & int.from_bytes(chunk.counts[first:stop], "big")
        counts = both.to_bytes(stop - first, "big")
        left = len(counts) - counts.count(0)
        found = [0] * DELIVERIES_TOLD
        for at in range(DELIVERIES_TOLD - 1):
            if not left:
                break
            found[at] = counts.count(at + 1)
            left -= found[at]
        found[-1] = left
        yield found
