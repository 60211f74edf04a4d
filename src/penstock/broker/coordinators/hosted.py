"""A kind of coordinator as its broker sees it; implemented by hosting.py."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.broker.partitions import HostedPartition
from penstock.coordinator.runtime import CoordinatorRuntime


class HostedCoordinator(Protocol):
    """One for each internal topic."""

    topic: str
    runtime: CoordinatorRuntime[Any, Any]

    @property
    def partitions(self) -> Sequence[HostedPartition | None]:
        """The partitions of its topic on this node; empty until the topic exists."""

    def reconcile(self) -> None:
        """Load the partitions that are led here, and unload those that are not."""

    def rewrite_due(self) -> None:
        """Rewrite the partitions that have grown enough."""

    def rewrite(self, hosted: HostedPartition, on_done: Callable[[bool], None]) -> bool:
        """Rewrite a partition; return False if a rewrite is in progress or not possible."""
