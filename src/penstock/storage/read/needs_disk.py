"""A read that would block on the disk, when it begins, and the errors that it may end with.

Source: docs/adr/0002.
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.storage.errors import ReadFailed
from penstock.storage.read.chunk import Chunk

Failed = PlatformError | None
Loaded = Callable[[Chunk | None, Failed], None]

Over = Callable[[], None]
Begin = Callable[[Over], None]
"""Begins a look-up, which calls `over()` once, at once or later."""
Drop = Callable[[], None]
Turn = Callable[[Begin, Drop], None]
"""Calls one of both, now or later: who asks for many look-ups has to wait for a turn."""


def at_once(begin: Begin, drop: Drop) -> None:
    """Begin now: the turn of who is not a client."""
    del drop
    begin(_nothing)


class NeedsDisk:
    """A read that would block on the disk. `size` is the largest number of bytes it may return."""

    __slots__ = ("_load", "size")

    def __init__(self, size: int, load: Callable[[Loaded], None]) -> None:
        self.size = size
        self._load = load

    def load(self, done: Loaded) -> None:
        """Read off the loop; `done(chunk, error)` is called on the loop, with one of them None."""

        def loaded(chunk: Chunk | None, error: Failed) -> None:
            if chunk is not None:
                chunk.is_cold = True
            done(chunk, error)

        self._load(loaded)


def _nothing() -> None:
    """Nobody waits for this to be over."""


def as_platform_error(error: BaseException) -> PlatformError:
    """Return the error as one that a caller may handle; raise it if it is a bug."""
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, OSError):
        return ReadFailed(str(error))
    raise error
