"""Changes of a consumer group that are being decided: see assigned/draft.py.

Source: Kafka, CurrentAssignmentBuilder.java, for who may have a partition.
"""

from collections.abc import Mapping

from penstock.base.invariant import invariant
from penstock.groups.assigned.draft import AssignedDraft
from penstock.groups.assigned.names import Kind
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.owners import Owners, held, move, of_others
from penstock.groups.consumer.records import Current, MemberFacts
from penstock.groups.consumer.tables import said_bytes


class Draft(AssignedDraft[ConsumerGroup, MemberFacts, Current]):
    """The group with some changes. Invariant: no partition has two owners."""

    __slots__ = ("_owners",)

    MEMBER, TARGET, CURRENT = Kind.MEMBER, Kind.TARGET, Kind.CURRENT
    _encode = staticmethod(said_bytes)

    def __init__(self, group: ConsumerGroup) -> None:
        super().__init__(group)
        self._owners: Owners = {}
        """Those of topics that change; each is a copy of the group's."""

    def member_of(self, instance_id: str) -> str | None:
        """Return the static member that an instance id belongs to."""
        for member_id, facts in self._facts.items():
            if facts is not None and facts.instance_id == instance_id:
                return member_id
        owner = self._group.static_members.get(instance_id)
        return owner if owner is not None and self.facts(owner) is not None else None

    def free_for(self, member_id: str, topic_id: bytes, numbers: frozenset[int]) -> frozenset[int]:
        """Return those of a topic's partitions that no other member has, or has to give up yet."""
        return numbers - of_others(self._owned(topic_id), member_id, numbers)

    def _owned(self, topic_id: bytes) -> Mapping[int, str]:
        return self._owners.get(topic_id, self._group.owners.get(topic_id, {}))

    def put_current(self, member_id: str, current: Current | None) -> None:
        """Change what a member has. What it does not have any more is free at once."""
        before = self.current(member_id)
        for topic_id, numbers in held(current):
            invariant(
                not of_others(self._owned(topic_id), member_id, numbers),
                "a partition has one owner",
                group=self._group.group_id,
                member=member_id,
            )
        for topic_id, _ in (*held(before), *held(current)):
            if topic_id not in self._owners:
                self._owners[topic_id] = {**self._group.owners.get(topic_id, {})}
        move(self._owners, member_id, before, current)
        super().put_current(member_id, current)
