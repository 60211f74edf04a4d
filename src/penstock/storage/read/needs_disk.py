"""A read that would wait for the disk, and what may come of one.

Source: docs/adr/0002.
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.storage.errors import ReadFailed
from penstock.storage.read.chunk import Chunk

Failed = PlatformError | None
Loaded = Callable[[Chunk | None, Failed], None]


class NeedsDisk:
    """A read that would wait for the disk. `size` is what it was asked to return at most."""

    __slots__ = ("_load", "size")

    def __init__(self, size: int, load: Callable[[Loaded], None]) -> None:
        self.size = size
        self._load = load

    def load(self, done: Loaded) -> None:
        """Read off the loop; `done(chunk, error)` is called on the loop, one of them is None."""
        self._load(done)


def as_platform_error(error: BaseException) -> PlatformError:
    """Return what a caller may handle; anything that is a bug of ours is raised."""
    if isinstance(error, PlatformError):
        return error
    if isinstance(error, OSError):
        return ReadFailed(str(error))
    raise error
