"""What a check of files finds.

Source: verify.py, verify_extents.py.
"""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Durable data is damaged or missing."""
    WARNING = "warning"
    """A derived file is damaged; it is rebuilt when it is needed."""
    NOTE = "note"
    """For information; nothing is wrong."""


class Finding(NamedTuple):
    """One finding. `position` is -1 if it concerns a whole file."""

    severity: Severity
    path: str
    position: int
    message: str
