"""What a log does when its disk is full: it waits, and tries again.

    a write or an allocation finds no space ─► is_full ─(space_check_ms)─► once more ─► room
                                                  ▲                             │
                                                  └───── there is still none ───┘

Whatever waits is where it was: staged bytes stay staged, and an append that was refused changed
nothing.

Source: none; Kafka takes the directory offline instead (KIP-112).
"""

from collections.abc import Callable

from penstock.base.ports import Cancellable, Scheduler
from penstock.storage.commit_log.segments import SegmentStore
from penstock.storage.errors import OutOfSpace, SegmentNotReady, StorageError


class SpaceWaiting:
    """One log that may be waiting for space."""

    __slots__ = (
        "_delay_ms",
        "_is_over",
        "_on_room",
        "_scheduler",
        "_store",
        "_timer",
        "_write",
        "has_write_failed",
        "is_full",
    )

    def __init__(
        self,
        store: SegmentStore,
        scheduler: Scheduler,
        delay_ms: int,
        *,
        write: Callable[[], bool],
        on_room: Callable[[], None],
    ) -> None:
        """`write` writes what is staged, and returns whether nothing is left of it.

        `on_room` is called when an append may be tried again.
        """
        self._store = store
        self._scheduler = scheduler
        self._delay_ms = delay_ms
        self._write = write
        self._on_room = on_room
        self._timer: Cancellable | None = None
        self._is_over = False
        self.is_full = False
        self.has_write_failed = False
        """Whether the last write of staged bytes found no space: it must be tried again."""

    def write_failed(self) -> None:
        """Note that a write of staged bytes found no space, and try again later."""
        self.has_write_failed = True
        self.begin()

    def refusal(self, directory: str) -> StorageError:
        """Return why an append is refused now: the next file is being made, or the disk is full."""
        error = self._store.prepare_error
        if not self.has_write_failed and error is None:
            return SegmentNotReady(directory)
        self.is_full = True
        return OutOfSpace(directory, error.strerror if error is not None else None)

    def begin(self) -> None:
        """Note that the disk is full, and try again later."""
        self.is_full = True
        self._try_later()

    def stop(self) -> None:
        """Try no more: the log takes no more writes."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def prepared(self) -> None:
        """Go on after the next file was allocated, or try again later if that failed."""
        if self._store.prepare_error is not None:
            self._try_later()
        else:
            self._has_room()

    def _try_later(self) -> None:
        if self._timer is None and not self._is_over:
            self._timer = self._scheduler.call_later(self._delay_ms, self._try)

    def _try(self) -> None:
        self._timer = None
        is_all_written = self._write()
        if self._store.prepare_error is not None:
            self._store.prepare_next()
        elif is_all_written:
            self._has_room()

    def _has_room(self) -> None:
        self.is_full = False
        self._on_room()
