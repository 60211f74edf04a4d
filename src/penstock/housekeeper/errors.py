"""Errors of the housekeeper."""

from penstock.base.errors import PlatformError


class BadMessage(PlatformError):
    """Bytes in the pipe between a node and its housekeeper are no message."""
