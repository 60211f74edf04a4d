"""Errors of the protobuf room."""

from penstock.base.errors import PlatformError


class MalformedMessage(PlatformError):
    """Not a message of protobuf, or one beyond the bounds of this codec."""

    def __init__(self, reason: str) -> None:
        """`reason` is one short phrase, for the client and for logs."""
        super().__init__(reason)
        self.reason = reason


class TooManyFields(MalformedMessage):
    """More fields, or values of one, than a message may have."""
