"""Errors of coordinators and of their records.

    CoordinatorError
      MalformedRecord     a record of an internal topic that cannot be decoded

Answers to clients are not exceptions: they are `ErrorCode` values in the replies.
"""

from penstock.base.errors import PlatformError


class CoordinatorError(PlatformError):
    """Root of this room's errors."""


class MalformedRecord(CoordinatorError):
    """A key or value of an internal topic does not follow its page in docs/formats."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"malformed record: {reason}")
        self.reason = reason
