"""Changes of a consumer group that are being decided: what the group will be once they are written.

A draft lies over the confirmed group and is the only place where decisions are made. It becomes one
write; if that is not confirmed, the draft is dropped and the group is as it was.

Source: Kafka, the records that a CoordinatorResult collects; there they change the live state at
once and are taken back if the write fails.
"""

from collections.abc import Iterator, Mapping

from penstock.base.invariant import invariant
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.owners import Owners, held, move, of_others
from penstock.groups.consumer.records import (
    Current,
    GroupEpoch,
    Kind,
    MemberFacts,
    Resolved,
    Target,
    TargetEpoch,
)
from penstock.groups.consumer.tables import SaidBytes, is_classic, said_bytes

Said = GroupEpoch | MemberFacts | TargetEpoch | Target | Current | Resolved


class Draft:
    """The group with some changes. Invariant: no partition has two owners."""

    __slots__ = (
        "_currents",
        "_facts",
        "_group",
        "_owners",
        "changes",
        "classic_count",
        "epoch",
        "is_bumped",
    )

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self.changes: dict[bytes, SaidBytes | None] = {}
        """Records by key, in the order in which they were first changed; None is a tombstone."""
        self._facts: dict[str, MemberFacts | None] = {}
        self._currents: dict[str, Current | None] = {}
        self._owners: Owners = {}
        """Those of topics that change; each is a copy of the group's."""
        self.epoch = group.epoch
        self.classic_count = group.tables.classic_count
        """How many members will use the classic protocol."""
        self.is_bumped = False
        """Whether members or their subscriptions have changed, so that the epoch must grow."""

    def facts(self, member_id: str) -> MemberFacts | None:
        """Return what a member says of itself; None if there is no such member."""
        if member_id in self._facts:
            return self._facts[member_id]
        return self._group.facts.get(member_id)

    def current(self, member_id: str) -> Current | None:
        """Return what a member has."""
        if member_id in self._currents:
            return self._currents[member_id]
        return self._group.currents.get(member_id)

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

    @property
    def member_count(self) -> int:
        """How many members the group will have."""
        count = len(self._group.facts)
        for member_id, facts in self._facts.items():
            count += (facts is not None) - (member_id in self._group.facts)
        return count

    def members(self) -> Iterator[tuple[str, MemberFacts]]:
        """Yield all members, the oldest first."""
        for member_id, facts in self._group.facts.items():
            kept = self._facts.get(member_id, facts)
            if kept is not None:
                yield member_id, kept
        for member_id, added in self._facts.items():
            if added is not None and member_id not in self._group.facts:
                yield member_id, added

    def put(self, kind: Kind, about: str, said: Said | None) -> None:
        """Change one record."""
        key = self._group.key(kind, about)
        if said is None and key not in self._group.metadata.values:
            self.changes.pop(key, None)
            return
        self.changes[key] = None if said is None else said_bytes(said)

    def put_facts(self, member_id: str, facts: MemberFacts | None) -> None:
        """Change what a member says of itself."""
        self.classic_count += is_classic(facts) - is_classic(self.facts(member_id))
        self._facts[member_id] = facts
        self.put(Kind.MEMBER, member_id, facts)

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
        self._currents[member_id] = current
        self.put(Kind.CURRENT, member_id, current)

    def remove(self, member_id: str) -> None:
        """Remove a member with all that it has; the assignment must be computed anew."""
        self.put_current(member_id, None)
        self.put(Kind.TARGET, member_id, None)
        self.put_facts(member_id, None)
        self.is_bumped = True

    def rename(self, old_id: str, new_id: str, facts: MemberFacts) -> None:
        """Give a static member another id: what it has and is to have stays its own."""
        if self.facts(new_id) is not None:
            self.remove(new_id)  # the member was another instance before
        current, target = self.current(old_id), self._group.targets.get(old_id)
        self.put_current(old_id, None)
        self.put(Kind.TARGET, old_id, None)
        self.put_facts(old_id, None)
        self.put_facts(new_id, facts)
        if target is not None:
            self.put(Kind.TARGET, new_id, target)
        if current is not None:
            self.put_current(new_id, current)

    def target(self, member_id: str) -> Target | None:
        """Return what a member is to have."""
        key = self._group.key(Kind.TARGET, member_id)
        if key in self.changes:
            value = self.changes[key]
            return None if value is None or not isinstance(value.said, Target) else value.said
        return self._group.targets.get(member_id)
