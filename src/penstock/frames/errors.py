"""What is wrong with frames; storage/errors.py has the whole tree.

Source: as there.
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import Position


class StorageError(PlatformError):
    """Root of the errors of storage."""


class CorruptFrame(StorageError):
    """The bytes at `position` are not a whole, valid frame."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no valid frame at position {position}: {reason}")
        self.position = Position(position)
        self.reason = reason


class BadRun(StorageError):
    """A frame of a run is damaged, or does not continue the log; nothing was appended."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"run refused at position {position}: {reason}")
        self.position = Position(position)
        self.reason = reason
