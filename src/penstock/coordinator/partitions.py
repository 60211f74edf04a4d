"""Which partitions of an internal topic a coordinator owns, and whether they are loaded.

Source: Kafka, CoordinatorRuntime.CoordinatorState.
"""

from collections.abc import Iterator
from enum import Enum

from penstock.base.invariant import invariant


class PartitionState(Enum):
    """State of an owned partition."""

    LOADING = "loading"
    ACTIVE = "active"


class Partitions:
    """The state of each owned partition, and how many partitions the internal topic has."""

    __slots__ = ("_grows", "_states", "count")

    def __init__(self, count: int, *, grows: bool = False) -> None:
        """`grows`: partitions may be added while others are owned."""
        self._grows = grows
        self._states: dict[int, PartitionState] = {}
        self.count = count
        """Partitions of the internal topic; before it exists, the count it will be created with."""

    def use_count(self, count: int) -> None:
        """Use the internal topic's real number of partitions, which may differ from the setting.

        It never changes once the topic exists, unless that grows. Invariant: no partition is owned
        if it changes here, or none of those is lost.
        """
        if count != self.count:
            is_growth = self._grows and count > self.count
            invariant(
                is_growth or not self._states, "an internal topic keeps its partitions", n=count
            )
            self.count = count

    def state(self, partition: int) -> PartitionState | None:
        """Return the state of a partition; None if it is not owned."""
        return self._states.get(partition)

    def is_active(self, partition: int) -> bool:
        """Whether a partition is owned and loaded."""
        return self._states.get(partition) is PartitionState.ACTIVE

    def put(self, partition: int, state: PartitionState | None) -> None:
        """Change the state of a partition; None means not owned any more."""
        assert 0 <= partition < self.count, partition
        if state is None:
            self._states.pop(partition, None)
        else:
            self._states[partition] = state

    def counted(self) -> Iterator[tuple[PartitionState, int]]:
        """Yield how many partitions are in each state."""
        states = [*self._states.values()]
        for state in PartitionState:
            yield state, states.count(state)

    @property
    def is_loading(self) -> bool:
        """Whether some partition is still being loaded."""
        return PartitionState.LOADING in self._states.values()
