"""Features and their levels, which decide what a cluster may write.

    cluster without FeatureLevelChanged   level 1: what releases before levels read
    penstock.metadata at level 2          feature levels, carried kinds, configuration of brokers,
                                          groups and client metrics, quotas, SCRAM, ACLs, machines

A process reads a range of levels of each feature and tells it to its peers packed into one number,
which is 0 for releases that know no levels.

Source: KIP-584 (feature levels), KIP-778 (metadata.version); ADR 0067.
"""

from typing import NamedTuple

METADATA = "penstock.metadata"
"""The feature whose level decides which metadata records may be written."""

FIRST_LEVEL = 1
"""The level of a log that contains no level."""

MACHINES_LEVEL = 2
"""Lowest level at which registrations contain the machine of a broker."""

_BITS = 16


class LevelRange(NamedTuple):
    """The levels of a feature that a process can run with, both inclusive."""

    lowest: int
    highest: int

    def has(self, level: int) -> bool:
        """Whether the process can run with that level."""
        return self.lowest <= level <= self.highest

    def packed(self) -> int:
        """Return both in one number, the form used on links between peers."""
        return self.lowest << _BITS | self.highest

    def __str__(self) -> str:
        return f"{self.lowest} to {self.highest}" if self.lowest != self.highest else f"{self[0]}"


METADATA_LEVELS = LevelRange(FIRST_LEVEL, 2)
"""What this release reads and writes."""

SUPPORTED = {METADATA: METADATA_LEVELS}
"""All features that this release knows."""


def unpack_levels(packed: int) -> LevelRange:
    """Return a peer's range; an absent or invalid one is the first level only."""
    found = LevelRange(packed >> _BITS, packed & ((1 << _BITS) - 1))
    if not FIRST_LEVEL <= found.lowest <= found.highest:
        return LevelRange(FIRST_LEVEL, FIRST_LEVEL)
    return found
