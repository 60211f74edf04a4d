"""What the confirmed records of a consumer group say, indexed.

    take(key, value) ─► facts, targets, currents, owners, ...      one record is replayed

The live state and loading are both made by `take`. A write of a large group has thousands of
records: they are replayed into a copy beforehand, in portions, and the copy takes the place of the
tables when the write is confirmed (`GroupRecords`). A copy shares what it does not change.

Source: Kafka, ConsumerGroup.java and ModernGroup.java, whose timeline maps keep older versions too.
"""

from typing import Any

from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.records import UnreadRecord
from penstock.groups.consumer.owners import Owners, drop_unowned, held, move
from penstock.groups.consumer.records import (
    Current,
    GroupEpoch,
    Kind,
    MemberFacts,
    Resolved,
    Said,
    Target,
    TargetEpoch,
    about_at,
    decode_said,
    encode_said,
    named_by,
)

NO_EPOCH = 0


class SaidBytes(bytes):
    """The value of a record together with what it says, so that it is not decoded again."""

    said: Said


def said_bytes(said: Said) -> SaidBytes:
    """Return the value of a record that says this."""
    value = SaidBytes(encode_said(said))
    value.said = said
    return value


class Tables:
    """The tables of one group. Only `take` changes them."""

    __slots__ = (
        "_about_at",
        "_group_id",
        "classic_count",
        "currents",
        "facts",
        "own_topics",
        "owners",
        "resolved",
        "said",
        "static_members",
        "target_said",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._about_at = about_at(group_id)
        self.own_topics: set[bytes] | None = None
        """In what was a copy, the topics whose owners it does not share with the original."""
        self.said = GroupEpoch(NO_EPOCH)
        self.target_said = TargetEpoch(NO_EPOCH)
        self.facts: dict[str, MemberFacts] = {}
        self.classic_count = 0
        """How many members use the classic protocol."""
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.targets: dict[str, Target] = {}
        self.currents: dict[str, Current] = {}
        self.resolved: dict[str, Resolved] = {}
        """Regular expression -> its topics."""
        self.owners: Owners = {}

    def copy(self) -> "Tables":
        """Return a copy to replay records into, which leaves these tables as they are."""
        made = Tables(self._group_id)
        made.own_topics = set()
        made.said, made.target_said = self.said, self.target_said
        made.classic_count = self.classic_count
        made.facts, made.static_members = {**self.facts}, {**self.static_members}
        made.targets, made.currents = {**self.targets}, {**self.currents}
        made.resolved, made.owners = {**self.resolved}, {**self.owners}
        return made

    def take(self, key: bytes, value: bytes | UnreadRecord | None) -> None:
        """Replay one record: None removes what its key names. Unreadable ones say nothing."""
        kind, about = named_by(key, self._about_at)
        said = _what_is_said(kind, value)
        match kind:
            case Kind.GROUP:
                self.said = said if isinstance(said, GroupEpoch) else GroupEpoch(NO_EPOCH)
            case Kind.TARGET_EPOCH:
                self.target_said = said if isinstance(said, TargetEpoch) else TargetEpoch(NO_EPOCH)
            case Kind.MEMBER:
                self._take_facts(about, said if isinstance(said, MemberFacts) else None)
            case Kind.TARGET:
                _put(self.targets, about, said if isinstance(said, Target) else None)
            case Kind.CURRENT:
                self._take_current(about, said if isinstance(said, Current) else None)
            case Kind.REGEX:
                _put(self.resolved, about, said if isinstance(said, Resolved) else None)

    def _take_facts(self, member_id: str, facts: MemberFacts | None) -> None:
        before = self.facts.get(member_id)
        instance_id = None if before is None else before.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if facts is not None and facts.instance_id is not None:
            self.static_members[facts.instance_id] = member_id
        self.classic_count += is_classic(facts) - is_classic(before)
        _put(self.facts, member_id, facts)

    def _take_current(self, member_id: str, current: Current | None) -> None:
        before = self.currents.get(member_id)
        if self.own_topics is not None:
            self._unshare(self.own_topics, before, current)
        move(self.owners, member_id, before, current)
        drop_unowned(self.owners, before)
        _put(self.currents, member_id, current)

    def _unshare(self, own: set[bytes], before: Current | None, after: Current | None) -> None:
        for topic_id, _ in (*held(before), *held(after)):
            if topic_id not in own:
                own.add(topic_id)
                self.owners[topic_id] = {**self.owners.get(topic_id, {})}


def is_classic(facts: MemberFacts | None) -> bool:
    """Whether there is such a member, and it uses the classic protocol."""
    return facts is not None and facts.classic is not None


def _what_is_said(kind: Kind, value: bytes | UnreadRecord | None) -> Said | None:
    if isinstance(value, SaidBytes):
        return value.said
    raw = value.value if isinstance(value, UnreadRecord) else value
    if raw is None:
        return None
    try:
        return decode_said(kind, raw)
    except MalformedRecord:
        return None


def _put(table: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
