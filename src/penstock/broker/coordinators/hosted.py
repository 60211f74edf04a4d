"""A kind of coordinator as the broker that hosts it sees it; hosting.py is the one there is."""

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
        """Compare what is coordinated here with what is led here, and act on it."""

    def rewrite_due(self) -> None:
        """Rewrite the partitions that have grown enough."""

    def rewrite(self, hosted: HostedPartition, on_done: Callable[[bool], None]) -> bool:
        """Rewrite a partition; False while that goes on already, or can not be."""
