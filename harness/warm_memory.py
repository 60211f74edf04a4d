"""Makes the host give its guest memory again, so that no measurement pays for the first touch.

A guest gives pages that are free back to its host within seconds. The next touch of such a page
costs several times as much as of one that the host still backs. That is as much as a broker needs
for the same bytes, and would be taken for its work.

Source: the kernel's free page reporting; `MADV_POPULATE_WRITE`.
"""

import contextlib
import mmap
import os

POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14, which the mmap module does not name."""


def warm_memory(size: int) -> None:
    """Touch so many bytes and free them; at most half of what is available. Older kernels: no."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with mmap.mmap(-1, min(size, available // 2)) as memory, contextlib.suppress(OSError):
        memory.madvise(POPULATE_WRITE)
