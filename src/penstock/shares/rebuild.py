"""What is derived of a share's cells once its records are read, a chunk at a time.

Source: Kafka `SharePartition.maybeInitialize`, which reads its persister's batches.
"""

from collections.abc import Iterator

from penstock.base.invariant import invariant
from penstock.shares.cells import (
    ACQUIRED,
    CELLS,
    DONE,
    DYING,
    FREE,
    HELD,
    MASK,
    SHIFT,
    WAITING,
    Chunk,
)
from penstock.shares.runs import SPAN_MAX
from penstock.shares.share import SETTLED, UNSETTLED, Share

CHUNK_COST = 200
"""Cost of a chunk, as in coordinator/portions.py: up to 2 ms."""


def rebuild(share: Share, expires_from: int) -> Iterator[int]:
    """Make a share live whose records were all replayed; yields the cost of each step.

    Holders keep their time, and have at least until the tick `expires_from`: while there was no
    master, none could accept.
    """
    invariant(share.end - share.base <= SPAN_MAX, "a window is bounded", key=share.key)
    for number in _prune(share):
        chunk = share.chunks.get(number)
        if chunk is None:
            chunk = share.chunks[number] = Chunk(is_ordered=share.is_ordered)
        if share.is_ordered:
            chunk.order()
        _derive(share, chunk, number << SHIFT, expires_from)
        yield CHUNK_COST
    share.first_free = share.base >> SHIFT
    share.loaded_tick = expires_from
    share.is_live = True


def _prune(share: Share) -> range:
    """Find where the window begins, and forget what is outside of it; return its chunks."""
    while share.base < share.end:
        number = share.base >> SHIFT
        stop = min(CELLS, share.end - (number << SHIFT))
        chunk = share.chunks.get(number)
        if chunk is None:
            break
        found = UNSETTLED.search(chunk.states, share.base & MASK, stop)
        if found is not None:
            share.base = (number << SHIFT) + found.start()
            break
        share.base = (number << SHIFT) + stop
    first = share.base >> SHIFT
    end = -(-share.end // CELLS) if share.base < share.end else first
    kept = {number: share.chunks[number] for number in sorted(share.chunks)}
    share.chunks = {number: kept[number] for number in kept if first <= number < end}
    if share.end & MASK and end - 1 in share.chunks:
        share.chunks[end - 1].clear(share.end & MASK, CELLS)
    return range(first, end)


def _derive(share: Share, chunk: Chunk, start: int, expires_from: int) -> None:
    """Count a chunk's cells, set their timers, and chain their keys."""
    first, stop = max(share.base - start, 0), min(CELLS, share.end - start)
    chunk.states[:first] = bytes((DONE,)) * first  # what was below the log's start is over, too
    for place in range(first, stop):
        state = chunk.states[place]
        if share.is_ordered and state not in SETTLED:
            is_behind = share.chains.add(share.chunks, chunk, place, start + place)
            if is_behind:
                state = chunk.states[place] = HELD
            elif state == HELD:
                state = chunk.states[place] = FREE
        if state == ACQUIRED:
            share.in_flight += 1
            share.members.hold(chunk.members[place])
        elif state == DYING:
            share.dying.append(start + place)
    _set_timers(share, chunk, start, (first, stop), expires_from)
    chunk.free = chunk.states.count(FREE, first, stop)
    share.free += chunk.free


def _set_timers(
    share: Share, chunk: Chunk, start: int, places: tuple[int, int], expires_from: int
) -> None:
    """Set a timer for each stretch of cells that are due at one time."""
    begun, due = 0, -1
    for place in range(places[0], places[1] + 1):
        is_timed = place < places[1] and chunk.states[place] in {ACQUIRED, WAITING}
        this_due = chunk.dues[place] if is_timed else -1
        if this_due == due:
            continue
        if due >= 0:
            share.timers.add(max(due, expires_from), start + begun, place - begun)
        begun, due = place, this_due
