"""The members that the leader of a generation is told of.

Source: Kafka, GroupMetadata.currentMemberMetadata. Departure: many are listed only while the answer
is encoded.
"""

from collections.abc import Iterator

from penstock.groups.classic.group import Group
from penstock.groups.messages import JoinedMember, MembersTold

TOLD_AT_ONCE = 100
"""Up to so many members are listed for a leader at once; each may have 64 KiB of metadata."""


def members_for_leader(group: Group) -> MembersTold:
    """Return every member with its metadata for the elected protocol."""
    roll = Roll(group)
    return tuple(roll) if len(roll) <= TOLD_AT_ONCE else roll


class Roll:
    """The members for the leader's answer, listed only when iterated, possibly much later.

    The answer to a leader may have to wait for room. If it kept the metadata of thousands of
    members meanwhile, those of former generations would pile up. A leader that gets another
    generation's members does no harm: its assignment is refused.
    """

    __slots__ = ("_group",)

    def __init__(self, group: Group) -> None:
        self._group = group

    def __len__(self) -> int:
        return len(self._group.members)

    def __iter__(self) -> Iterator[JoinedMember]:
        for member in [*self._group.members.values()]:
            yield JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata_for(self._group.protocol_name),
            )
