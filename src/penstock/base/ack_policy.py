"""How many copies an acknowledgement stands for, and how many answers an election needs for that.

    policy            a write with acks=all waits for          an election needs answers from
    all               every member of the sync-state set       one member of the sync-state set
    adaptive          `required` members, fewer down to        all in step but required - 1
                      `minimum` as the set shrinks
    k-of-n            `required` of all replicas               n - required + 1 replicas
    quorum            a majority of all replicas               a majority of all replicas
    async-may-lose    the master alone                         one member of the sync-state set

The member with the longest log among those that answered is elected, so it has every acknowledged
record. `async-may-lose` does not promise this, as its name says.

Source: RIP-44 and RocketMQ's totalReplicas, inSyncReplicas, minInSyncReplicas and
allAckInSyncStateSet; Gifford 1979 for overlapping counts. This module knows numbers only, no logs.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base.errors import ConfigError


class PolicyKind(StrEnum):
    """The names are those of the configuration and of the metadata log."""

    ALL = "all"
    ADAPTIVE = "adaptive"
    K_OF_N = "k-of-n"
    QUORUM = "quorum"
    ASYNC = "async-may-lose"


@dataclass(frozen=True, slots=True, kw_only=True)
class AckPolicy:
    """One set's policy. `required` counts the master too; `all`, `quorum` and async ignore it.

    With fewer than `minimum` members in step a write with acks=all fails at once.
    """

    kind: PolicyKind = PolicyKind.ALL
    required: int = 1
    minimum: int = 1

    def __post_init__(self) -> None:
        if self.required < 1 or self.minimum < 1:
            raise ConfigError("an acknowledgement policy counts at least the master: use 1 or more")
        if self.kind is PolicyKind.ADAPTIVE and self.minimum > self.required:
            raise ConfigError(
                f"the adaptive policy has a minimum of {self.minimum} above the {self.required} "
                "copies that it waits for: lower the minimum or raise the other"
            )

    @property
    def counts_replicas(self) -> bool:
        """Whether copies on members outside the sync-state set count as well."""
        return self.kind in {PolicyKind.K_OF_N, PolicyKind.QUORUM}

    @property
    def needs_lease(self) -> bool:
        """Whether a master that is cut off could still acknowledge while another is elected."""
        return self.kind is not PolicyKind.ALL

    def copies_needed(self, replica_count: int, in_sync_count: int) -> int:
        """Return how many members, master included, must hold a write before it is confirmed."""
        match self.kind:
            case PolicyKind.ALL:
                return in_sync_count
            case PolicyKind.ADAPTIVE:
                return max(min(self.required, in_sync_count), self.minimum)
            case PolicyKind.K_OF_N:
                return min(self.required, replica_count)
            case PolicyKind.QUORUM:
                return replica_count // 2 + 1
            case PolicyKind.ASYNC:
                return 1

    def answers_needed(self, replica_count: int, in_sync_count: int) -> int:
        """Return how many candidates must answer so that one of them has every acknowledged write.

        Candidates are all replicas where `counts_replicas`, else the sync-state set.
        """
        if self.kind in {PolicyKind.ALL, PolicyKind.ASYNC}:
            return 1
        voters = replica_count if self.counts_replicas else in_sync_count
        return max(1, voters - self.copies_needed(replica_count, in_sync_count) + 1)
