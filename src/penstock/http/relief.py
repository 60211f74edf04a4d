"""Gives memory back to the system once clients have released much of it.

A connection with TLS has some 90 KiB, and bodies have up to HELD_BYTES_MAX; after a crowd the
allocator would keep most of that for later.

    every look ─► less is held than before, by RELIEF_BYTES ─► free lists, then malloc off the loop
                  the free lists have to rest ─► malloc, and the next looks try both again

Source: ours; see base/memory.py.
"""

import asyncio
import time

from penstock.base.memory import FreeLists, trim_memory
from penstock.http.limits import Held
from penstock.http.places import Places

CONNECTION_BYTES = 90 << 10
"""Of one with TLS, as measured."""
RELIEF_BYTES = 4 << 20


class Relief:
    """See the module; `look` is to be called about once a second."""

    def __init__(self, places: Places, held: Held) -> None:
        self._places = places
        self._held = held
        self._free_lists = FreeLists(lambda: time.monotonic_ns() // 1_000)
        self._most = 0
        """What was held at most since memory was last given back."""

    async def look(self) -> bool:
        """Give memory back, if that is worth it; returns whether it was done."""
        now = len(self._places) * CONNECTION_BYTES + self._held.bytes_now
        self._most = max(self._most, now)
        if self._most - now < RELIEF_BYTES:
            return False
        if self._free_lists.free():
            self._most = now
        await asyncio.to_thread(trim_memory)
        return True
