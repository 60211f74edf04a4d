"""Giving memory back to the system that the allocator keeps for later.

glibc keeps what is freed below its threshold for large blocks, and raises that threshold with every
large block that is freed: after a flood of answers it keeps hundreds of mebibytes. CPython keeps
lists of freed tuples, floats and the like, and one of them holds a whole arena of objects.
"""

import ctypes
import gc
from collections.abc import Callable

REST = 1_000
"""Times as long as a collection takes, until the next one."""


def trim_memory() -> int:
    """Give back what can be given; returns 0 where the allocator has nothing, or no such call.

    Takes milliseconds to tens of them: call it off the loop.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return 0  # another allocator
    return int(trim(0))


class FreeLists:
    """Frees what CPython keeps for new objects, by a collection of everything: nothing else does.

    It takes 4 ms of the calling thread, with 10,000 partitions 6 ms, and more with all that came
    after the start: what lived then is frozen, and not looked through. So the next one waits for
    a thousand times as long as the last one took.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._next_us = 0

    def is_ready(self) -> bool:
        """Whether it would not be too soon."""
        return self._now_us() >= self._next_us

    def free(self) -> bool:
        """Free them, or return False: it is too soon."""
        begun = self._now_us()
        if begun < self._next_us:
            return False
        gc.collect()
        ended = self._now_us()
        self._next_us = ended + REST * (ended - begun)
        return True
