"""Which protocol a generation uses: every member votes for its first one that all members offer.

Members that offer the same names in the same order vote alike, so votes are counted by ballot. A
group of thousands has only a few ballots, so the time to choose does not grow with the members.

Ties go to the protocol that the first member prefers, so that the same members in the same order
always get the same protocol.

Source: Kafka, ClassicGroup.selectProtocol (ties are left to hash order there).
"""

from collections.abc import Mapping, Sequence

Ballot = tuple[str, ...]
"""Names of the protocols that a member offers, the preferred one first."""


def choose_protocol(common: Sequence[str], ballots: Mapping[Ballot, int]) -> str:
    """Return the elected protocol of `common`, which all offer, in the first member's order.

    `ballots` maps each ballot to its number of members. `common` must not be empty.
    """
    assert common, "members without a common protocol were let into a group"
    votes = dict.fromkeys(common, 0)
    if len(votes) > 1:
        for ballot, count in ballots.items():
            votes[next(name for name in ballot if name in votes)] += count
    return max(common, key=lambda name: votes[name])
