"""Returns memory to the system after peers have sent long messages.

    long frames ─► RELIEF_BYTES of them ─► a second without another ─► free lists, malloc

What decoded messages took stays with glibc and with CPython's free lists, of which one object keeps
a whole arena: 50 to 70 MiB after the largest messages there are. Memory that clients pin has a
relief of its own (relief.py), which a process that is a controller alone does not have.
"""

from penstock.base.callbacks import nothing
from penstock.base.memory import FreeLists, trim_memory
from penstock.base.ports import Cancellable, Lane, Offload, Scheduler
from penstock.net.peer_measure import FrameTurns

RELIEF_BYTES = 8 << 20
"""Of long frames since memory was last given back; less is not worth a collection."""
PAUSE_MS = 1_000


class PeerRelief:
    """Follows the long frames of one process from its creation until `stop`."""

    def __init__(
        self, frames: FrameTurns, scheduler: Scheduler, workers: Offload, free_lists: FreeLists
    ) -> None:
        self._frames = frames
        self._scheduler = scheduler
        self._workers = workers
        self._free_lists = free_lists
        self._freed_bytes = 0
        """Of long frames, how many had come when memory was last given back."""
        self._seen_bytes = 0
        self._timer: Cancellable | None = None
        frames.on_long = self._on_long

    def stop(self) -> None:
        """Follow no more."""
        self._frames.on_long = nothing
        if self._timer is not None:
            self._timer.cancel()

    def _on_long(self) -> None:
        is_enough = self._frames.long_bytes - self._freed_bytes >= RELIEF_BYTES
        if is_enough and self._timer is None:
            self._look_later()

    def _look_later(self) -> None:
        self._seen_bytes = self._frames.long_bytes
        self._timer = self._scheduler.call_later(PAUSE_MS, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._frames.long_bytes != self._seen_bytes or not self._free_lists.free():
            self._look_later()
            return
        self._freed_bytes = self._seen_bytes
        self._workers.submit(trim_memory, nothing, Lane.READ)
