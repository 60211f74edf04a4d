"""A read that would block on the disk, and the errors that it may end with.

Source: docs/adr/0002.
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.storage.errors import ReadFailed
from penstock.storage.read.chunk import Chunk

Failed = PlatformError | None
Loaded = Callable[[Chunk | None, Failed], None]


class NeedsDisk:
    """A read that would block on the disk. `size` is the largest number of bytes it may return."""

    __slots__ = ("_load", "size")

    def __init__(self, size: int, load: Callable[[Loaded], None]) -> None:
        self.size = size
        self._load = load

    def load(self, done: Loaded) -> None:
        """Read off the loop; `done(chunk, error)` is called on the loop, with one of them None."""
        self._load(done)


def as_platform_error(error: BaseException) -> PlatformError:
    """Return the error as one that a caller may handle; raise it if it is a bug."""
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, OSError):
        return ReadFailed(str(error))
    raise error
