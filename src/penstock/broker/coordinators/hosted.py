"""What a broker sees of its coordinators; implemented by hosting.py and share_places.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock.broker.partitions import HostedPartition
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.shares.messages import Unavailable
from penstock.shares.state import ShareKey


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


class PlacesOfShares(Protocol):
    """Where shares are, and what is set for their groups."""

    def internal_partition_of(self, key: ShareKey) -> int | None:
        """Return the internal partition in the replica set of the data; None if there is none."""

    def group_keys(self, group: str) -> Mapping[str, str]:
        """Return what is set for a group."""

    def is_gone(self, key: ShareKey) -> bool:
        """Whether the data of a share that is coordinated here was deleted."""

    async def ensure(self, key: ShareKey, deadline: float) -> Unavailable | None:
        """Have the internal partition of a share made if need be; return why it is not there.

        LOADING if it may still come; `deadline` is of the loop's clock.
        """
