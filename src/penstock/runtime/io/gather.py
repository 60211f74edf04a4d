"""Reading many places of a file into one buffer, as far as the page cache has them.

`read_places` has a compiled twin: a consumer that catches up on many partitions needs one read for
each batch. Source: ours; `preadv2(RWF_NOWAIT)`.
"""

import os
from collections.abc import Callable


def read_places(
    descriptor: int,
    places: list[tuple[int, int]],
    first: int,
    take: Callable[[int], memoryview],
    bytes_max: int,
) -> list[memoryview]:
    """Read places[first:], (position, length) each, in order, until a read is incomplete.

    As many as fit into `bytes_max` go into one buffer, allocated by `take(length)`. Returns what
    was read completely: fewer than fit, or none, if the page cache does not hold all of the next
    one, the file ends, or the read fails.
    """
    last, total = first, 0
    while last < len(places) and total + places[last][1] <= bytes_max:
        total += places[last][1]
        last += 1
    found: list[memoryview] = []
    if last == first:
        return found
    buffer, at = take(total), 0
    for position, length in places[first:last]:
        view = buffer[at : at + length]
        try:
            if os.preadv(descriptor, [view], position, os.RWF_NOWAIT) != length:
                break
        except OSError:
            break
        found.append(view)
        at += length
    return found
