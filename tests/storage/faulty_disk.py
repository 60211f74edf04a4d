"""The simulated disk, as the tests of storage make it: nothing is drawn but in a loss of power."""

from random import Random

from simulator.kernel.disk import SimDisk


class FaultyDisk(SimDisk):
    """A SimDisk whose chance is always the same."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__(Random(0), capacity=capacity)
