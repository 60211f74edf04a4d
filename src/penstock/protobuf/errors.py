"""Errors of the protobuf room."""

from penstock.base.errors import PlatformError


class MalformedMessage(PlatformError):
    """Not a message of protobuf, or more of its fields than it may have."""

    def __init__(self, reason: str) -> None:
        """`reason` is one short phrase, for the client and for logs."""
        super().__init__(reason)
        self.reason = reason
