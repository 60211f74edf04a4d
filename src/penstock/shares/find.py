"""Which records of a share are in a state, or in a member's hands.

Source: none.
"""

from collections.abc import Iterator
from re import compile as compiled

from penstock.shares.cells import ACQUIRED, CELLS, DYING, FREE, SHIFT
from penstock.shares.runs import Run, Runs, clipped, runs_of
from penstock.shares.share import Share

_ACQUIRED, _DYING = compiled(b"%c+" % ACQUIRED), compiled(b"%c+" % DYING)


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


def held_by(share: Share, member: int, number: int) -> list[Run]:
    """Return the records of chunk `number` that a member holds."""
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
    ]
    return runs_of(offsets)


def dying_in(share: Share, runs: Runs) -> Iterator[Run]:
    """Yield which of some records wait for their copy to be confirmed."""
    for chunk, i, j, first in share.pieces(clipped(runs, share.base, share.end)):
        for found in _DYING.finditer(chunk.states, i, j):
            yield first + found.start() - i, first + found.end() - i
