"""What is wrong with a table of the index, or with a row of the trace.

Source: ours.
"""

from penstock.base.errors import PlatformError


class DamagedTable(PlatformError):
    """The bytes are not those that were written; the table can be made anew from the log."""


class MalformedTrace(PlatformError):
    """A record of the trace's topic is no row."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not a row of the message trace: {reason}")
