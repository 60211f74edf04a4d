"""The audit of a node as those see it who count for it, and who tell its numbers.

Source: docs/requirements.md K-58.
"""

from typing import Any, Protocol

from penstock.audit.fold import Fold


class Audit(Protocol):
    """Numbers of rows are since the start."""

    fold: Fold
    """Where requests are counted."""

    @property
    def written(self) -> int:
        """Rows confirmed."""

    @property
    def dropped(self) -> int:
        """Rows that found no room."""

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait and no partition for them is led here."""

    def __len__(self) -> int:
        """Return how many rows wait."""

    def allowed(self, who: Any, operation: Any, resource: Any, name: str) -> None:
        """Count that a client used a permission; who, and of what, is as rooms above know it."""

    def expire(self, now_ms: int) -> None:
        """Take what a fold that is over has left, and write some of what waits."""

    def end(self) -> None:
        """Take what the present fold has, as the process stops."""
