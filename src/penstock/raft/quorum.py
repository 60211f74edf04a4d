"""Counting: what a majority has, and how a vote stands.

Source: Raft paper 5.2 and 5.3; the arithmetic of etcd's raft (majority quorums). Voters are those
of one configuration; who else has the entry or voted does not count.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import Enum

from penstock.base.ids import PeerId


class VoteOutcome(Enum):
    """How an election stands."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority_of(voter_count: int) -> int:
    """Return the smallest number of voters any two sets of which share a member."""
    assert voter_count >= 0, voter_count
    return voter_count // 2 + 1


def majority_value(values: Iterable[int]) -> int:
    """Return the largest value that a majority of the voters has reached; one value per voter.

    With match indexes this is the index that may be committed. Without voters it is 0.
    """
    ordered: Sequence[int] = sorted(values, reverse=True)
    return ordered[majority_of(len(ordered)) - 1] if ordered else 0


def vote_outcome(
    voters: Collection[PeerId], granted: Collection[PeerId], rejected: Collection[PeerId]
) -> VoteOutcome:
    """Return how the vote stands. Votes of others than `voters` do not count."""
    needed = majority_of(len(voters))
    if sum(voter in granted for voter in voters) >= needed:
        return VoteOutcome.WON
    if len(voters) - sum(voter in rejected for voter in voters) < needed:
        return VoteOutcome.LOST
    return VoteOutcome.PENDING
