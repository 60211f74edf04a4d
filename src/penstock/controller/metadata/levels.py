"""Features and their levels, which decide what a cluster may write.

    cluster without FeatureLevelChanged   level 1: what releases before levels read
    penstock.metadata at level 2          feature levels, carried kinds, configuration of brokers,
                                          groups and client metrics, quotas, SCRAM, ACLs, machines
                          level 3: levels of Kafka's features
                          level 4: delegation tokens
                          level 5: how often topics gave their copies up
    transaction.version   level 1: a producer keeps its epoch from transaction to transaction
                          level 2: each transaction has an epoch of its own (KIP-890)
    group.version         level 1: consumer groups of KIP-848
    share.version         level 1: share groups of KIP-932
    streams.version       level 1: streams groups of KIP-1071

A process reads a range of levels of the metadata and tells it to its peers packed into one number,
which is 0 for releases that know no levels. Whoever reads level 3 can run with every level of
Kafka's features that is listed here, so nobody is asked for those.

Source: KIP-584 (feature levels), KIP-778 (metadata.version), KIP-1022 (features beside it);
ADR 0067, ADR 0094.
"""

from typing import NamedTuple

METADATA = "penstock.metadata"
"""The feature whose level decides which metadata records may be written."""

TRANSACTIONS = "transaction.version"
"""Kafka's name for the protocol between clients and the coordinator of transactions."""

GROUPS = "group.version"
"""Kafka's name for the kinds of groups."""

SHARES = "share.version"
"""Kafka's name for share groups; without it Java's share consumers refuse to start."""
STREAMS = "streams.version"
"""Kafka's name for streams groups."""

FIRST_LEVEL = 1
"""The level of a log that contains no level."""

MACHINES_LEVEL = 2
"""Lowest level at which registrations contain the machine of a broker."""

CARRIED_LEVEL = 2
"""Lowest metadata level at which the log may contain records that may be carried."""

FEATURES_LEVEL = 3
"""Lowest metadata level at which the log may contain levels of other features."""

TOKENS_LEVEL = 4
"""Lowest metadata level at which the log may contain delegation tokens."""

GIVE_UPS_LEVEL = 5
"""Lowest metadata level at which the log may say that a topic gave up its copies."""

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


METADATA_LEVELS = LevelRange(FIRST_LEVEL, GIVE_UPS_LEVEL)
"""What this release reads and writes."""

SUPPORTED = {
    METADATA: METADATA_LEVELS,
    TRANSACTIONS: LevelRange(FIRST_LEVEL, 2),
    GROUPS: LevelRange(FIRST_LEVEL, 1),
    SHARES: LevelRange(FIRST_LEVEL, 1),
    STREAMS: LevelRange(FIRST_LEVEL, 1),
}
"""All features that this release knows. What others need comes first: that of the metadata."""


def unpack_levels(packed: int) -> LevelRange:
    """Return a peer's range; an absent or invalid one is the first level only."""
    found = LevelRange(packed >> _BITS, packed & ((1 << _BITS) - 1))
    if not FIRST_LEVEL <= found.lowest <= found.highest:
        return LevelRange(FIRST_LEVEL, FIRST_LEVEL)
    return found
