"""Which partitions of an internal topic a coordinator has, and whether it may answer for them.

Source: Kafka, CoordinatorRuntime.CoordinatorState.
"""

from collections.abc import Iterator
from enum import Enum

from penstock.base.invariant import invariant


class PartitionState(Enum):
    """Of a partition that is owned; one that is not has none."""

    LOADING = "loading"
    ACTIVE = "active"


class Partitions:
    """The states by partition, and how many partitions the internal topic has."""

    __slots__ = ("_states", "count")

    def __init__(self, count: int) -> None:
        self._states: dict[int, PartitionState] = {}
        self.count = count
        """Of the internal topic, once it exists; until then what it will be made with."""

    def use_count(self, count: int) -> None:
        """Go by the internal topic's own number of partitions, which the setting may differ from.

        It never changes once the topic exists; so no partition may be owned when it does.
        """
        if count != self.count:
            invariant(not self._states, "an internal topic keeps its partitions", n=count)
            self.count = count

    def state(self, partition: int) -> PartitionState | None:
        """Return the state of a partition, None for one that is not owned."""
        return self._states.get(partition)

    def is_active(self, partition: int) -> bool:
        """Whether a partition is owned and loaded."""
        return self._states.get(partition) is PartitionState.ACTIVE

    def put(self, partition: int, state: PartitionState | None) -> None:
        """Change the state of a partition; None: it is owned no more."""
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
        """Whether something may be missing still."""
        return PartitionState.LOADING in self._states.values()
