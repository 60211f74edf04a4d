"""What the confirmed records of a consumer group say, indexed: see assigned/tables.py.

Source: Kafka, ConsumerGroup.java.
"""

from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.tables import NO_EPOCH, AssignedTables, SaidBytes, put
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.consumer.owners import Owners, drop_unowned, held, move
from penstock.groups.consumer.records import (
    Current,
    MemberFacts,
    Resolved,
    Said,
    decode_said,
    encode_said,
)


def said_bytes(said: Said) -> SaidBytes:
    """Return the value of a record that says this."""
    value = SaidBytes(encode_said(said))
    value.said = said
    return value


class Tables(AssignedTables[MemberFacts, Current]):
    """The tables of one group. Only `take` changes them."""

    __slots__ = ("own_topics", "owners", "resolved", "static_members")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.own_topics: set[bytes] | None = None
        """In what was a copy, the topics whose owners it does not share with the original."""
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.resolved: dict[str, Resolved] = {}
        """Regular expression -> its topics."""
        self.owners: Owners = {}

    def copy(self) -> "Tables":
        """As in AssignedTables."""
        made = super().copy()
        made.own_topics = set()
        made.static_members = {**self.static_members}
        made.resolved, made.owners = {**self.resolved}, {**self.owners}
        return made

    _decode = staticmethod(decode_said)

    def _take(self, kind: Kind, about: str, said: object) -> None:
        match kind:
            case Kind.GROUP:
                self.said = said if isinstance(said, GroupEpoch) else GroupEpoch(NO_EPOCH)
            case Kind.TARGET_EPOCH:
                self.target_said = said if isinstance(said, TargetEpoch) else TargetEpoch(NO_EPOCH)
            case Kind.MEMBER:
                self._take_facts(about, said if isinstance(said, MemberFacts) else None)
            case Kind.TARGET:
                put(self.targets, about, said if isinstance(said, Target) else None)
            case Kind.CURRENT:
                self._take_current(about, said if isinstance(said, Current) else None)
            case _:
                assert kind is Kind.REGEX, kind
                put(self.resolved, about, said if isinstance(said, Resolved) else None)

    def _take_facts(self, member_id: str, facts: MemberFacts | None) -> None:
        before = self.facts.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if facts is not None and facts.instance_id is not None:
            self.static_members[facts.instance_id] = member_id
        put(self.facts, member_id, facts)

    def _take_current(self, member_id: str, current: Current | None) -> None:
        before = self.currents.get(member_id)
        if self.own_topics is not None:
            self._unshare(self.own_topics, before, current)
        move(self.owners, member_id, before, current)
        drop_unowned(self.owners, before)
        put(self.currents, member_id, current)

    def _unshare(self, own: set[bytes], before: Current | None, after: Current | None) -> None:
        for topic_id, _ in (*held(before), *held(after)):
            if topic_id not in own:
                own.add(topic_id)
                self.owners[topic_id] = {**self.owners.get(topic_id, {})}
