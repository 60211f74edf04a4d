"""Which protocol a generation uses: every member votes for its first one that all can speak.

Members that offer the same names in the same order vote alike, so votes are counted by ballots: a
group of thousands has a few, and choosing takes no time that grows with the members.

Ties go to the protocol the first member prefers, so that the same members in the same order always
get the same protocol.

Source: Kafka, ClassicGroup.selectProtocol (ties are left to hash order there).
"""

from collections.abc import Mapping, Sequence

Ballot = tuple[str, ...]
"""Names of protocols that a member offers, the one it likes best first."""


def choose_protocol(common: Sequence[str], ballots: Mapping[Ballot, int]) -> str:
    """Return the elected one of the protocols that all offer, in the order of the first member.

    `ballots` says how many members have each. There must be a common protocol.
    """
    assert common, "members without a common protocol were let into a group"
    votes = dict.fromkeys(common, 0)
    if len(votes) > 1:
        for ballot, count in ballots.items():
            votes[next(name for name in ballot if name in votes)] += count
    return max(common, key=lambda name: votes[name])
