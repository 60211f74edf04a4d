"""Why a message is not recalled.

RecallRefused
  BadHandle         it is no recall handle, or of another topic
  TooLate           the message is delivered, or is about to be
  TooManyRecalls    as many of the set wait for their messages as may
RecallsNotReady     recalls of the set are being read by its new master
"""

from penstock.remoting.errors import RemotingError


class RecallRefused(RemotingError):
    """The message is not recalled."""


class BadHandle(RecallRefused):
    """The handle names no message that could be recalled."""

    def __init__(self, reason: str = "recall handle is invalid") -> None:
        super().__init__(reason)


class TooLate(RecallRefused):
    """The time of delivery is decided."""

    def __init__(self) -> None:
        super().__init__("recall failed, timestamp invalid: it is delivered, or about to be")


class TooManyRecalls(RecallRefused):
    """No more of them before others are over."""


class RecallsNotReady(RemotingError):
    """The log is being read."""
