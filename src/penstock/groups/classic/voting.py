"""Which protocol a generation uses: every member votes for its first one that all can speak.

Ties go to the protocol the first member prefers, so that the same members in the same order always
get the same protocol.

Source: Kafka, ClassicGroup.selectProtocol (ties are left to hash order there).
"""

from collections.abc import Sequence

from penstock.groups.classic.member import Member


def common_protocols(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the names every member offers, in the order of the first member."""
    if not members:
        return ()
    others = [frozenset(p.name for p in member.protocols) for member in members[1:]]
    return tuple(p.name for p in members[0].protocols if all(p.name in names for names in others))


def choose_protocol(members: Sequence[Member]) -> str:
    """Return the elected protocol. There must be a common one."""
    candidates = common_protocols(members)
    assert candidates, "members without a common protocol were let into a group"
    votes = dict.fromkeys(candidates, 0)
    for member in members:
        votes[next(p.name for p in member.protocols if p.name in votes)] += 1
    return max(candidates, key=lambda name: votes[name])
