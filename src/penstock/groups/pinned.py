"""Memory of all groups of one coordinator, in bytes, updated with every change.

total       groups and their members
offsets     committed positions
in_flight   positions that are being written, in addition to those that they replace

Source: none; ADR 0042 and 0052.
"""


class PinnedBytes:
    """The sums; each group adds and subtracts its own part."""

    __slots__ = ("in_flight", "offsets", "total")

    def __init__(self) -> None:
        self.total = 0
        self.offsets = 0
        self.in_flight = 0
