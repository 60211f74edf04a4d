"""Errors of the audit room."""

from penstock.base.errors import PlatformError


class MalformedRow(PlatformError):
    """A record of the audit's topic is no row."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not a row of the audit: {reason}")
