"""Errors of the groups room.

    CoordinatorError
      MalformedGroupRecord     a record of the internal topic that cannot be decoded

Answers to clients are not exceptions: they are `ErrorCode` values in the replies.
"""

from penstock.base.errors import PlatformError


class CoordinatorError(PlatformError):
    """Root of this room's errors."""


class MalformedGroupRecord(CoordinatorError):
    """A key or value of the internal topic does not follow docs/formats/group-records.md."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"malformed group record: {reason}")
        self.reason = reason
