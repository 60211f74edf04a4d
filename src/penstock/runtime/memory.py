"""Giving memory back to the system that the allocator keeps for later.

glibc keeps what is freed below its threshold for large blocks, and raises that threshold with every
large block that is freed: after a flood of answers it keeps hundreds of mebibytes.
"""

import ctypes


def trim_memory() -> int:
    """Give back what can be given; returns 0 where the allocator has nothing, or no such call.

    Takes milliseconds to tens of them: call it off the loop.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return 0  # another allocator
    return int(trim(0))
