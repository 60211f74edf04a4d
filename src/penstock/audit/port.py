"""The audit of a node as those see it who count for it, and who tell its numbers.

Source: row K-58 of the specification.
"""

from typing import Protocol

from penstock.audit.fold import Fold


class Audit(Protocol):
    """Numbers of rows are since the start."""

    fold: Fold
    """Where requests are counted."""
    written: int
    """Rows confirmed."""
    dropped: int
    """Rows that found no room."""

    def __len__(self) -> int:
        """Return how many rows wait."""
