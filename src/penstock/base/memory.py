"""Returning memory to the system that the allocator keeps for later use.

glibc keeps freed blocks below its mmap threshold, and raises that threshold with every large block
that is freed: after a flood of answers it keeps hundreds of mebibytes. CPython keeps free lists of
tuples, floats and others, and a single free object keeps a whole arena.
"""

import ctypes
import gc
import sys
from collections.abc import Callable

REST = 1_000
"""Pause before the next collection, in multiples of the duration of the last one."""

TRAVERSED_MAX = 100_000
"""Blocks of the allocator, above those when the node was made, that a collection may go through: it
takes 65 ns for each of them, so 7 ms."""


def trim_memory() -> int:
    """Call malloc_trim; return 0 if nothing was released, or the allocator does not have it.

    Takes milliseconds to tens of them: call it off the loop.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return 0  # another allocator
    return int(trim(0))


class FreeLists:
    """Clears CPython's free lists, which only a full garbage collection does.

    It takes 4 ms of the calling thread, with 10,000 partitions 6 ms, and more with objects created
    after the start; earlier ones are frozen and not traversed. With thousands of topics created
    since, 135 ms: where there are so many objects, the old ones are frozen meanwhile. What holds
    itself among them is left to the interpreter's own collections.
    The pause before the next collection is a thousand times the duration of the last one.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._next_us = 0
        self._blocks = sys.getallocatedblocks()

    def is_ready(self) -> bool:
        """Whether the pause since the last collection is over."""
        return self._now_us() >= self._next_us

    def free(self) -> bool:
        """Clear them, or return False if the pause is not over."""
        begun = self._now_us()
        if begun < self._next_us:
            return False
        self._collect()
        ended = self._now_us()
        self._next_us = ended + REST * (ended - begun)
        return True

    def _collect(self) -> None:
        if sys.getallocatedblocks() - self._blocks <= TRAVERSED_MAX:
            gc.collect()
            return
        gc.collect(1)  # the young generations, which are small
        gc.freeze()
        gc.collect()
        gc.unfreeze()
