"""Requests of members of consumer groups, and their descriptions, independent of wire versions.

Source: the fields of ConsumerGroupHeartbeat 0-1 and ConsumerGroupDescribe 0-1; KIP-848.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.assignors.partitions import Partitions, count_of
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.messages import JOIN_EPOCH
from penstock.groups.consumer.records import ClassicFacts
from penstock.protocol.error_codes import ErrorCode

Sight = Callable[[str], bool]
"""Whether a client may see the topic of this name; an answer holds for the moment."""
UNCHANGED_MS = -1
PARTITION_BYTES = 40
"""Memory of a partition that a member names."""


class ClassicJoin(NamedTuple):
    """A JoinGroup of the classic protocol, which is decided like a heartbeat that joins."""

    facts: ClassicFacts
    is_known: bool
    """Whether the member named itself: then it replaces no other member of its instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member shows that it is alive, and says what has changed; None means unchanged."""

    group_id: str
    member_id: str
    member_epoch: MemberEpoch
    """The epoch the member is in; 0 joins, -1 leaves, -2 leaves a static membership for a while."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    classic: ClassicJoin | None = None
    may_see: Sight | None = field(default=None, compare=False)
    """Which topics its client may see; None if all."""

    @property
    def names(self) -> frozenset[str]:
        """As in Beat: a static member comes back under another id."""
        own = {self.member_id}
        return frozenset(own if self.instance_id is None else {*own, f"\0{self.instance_id}"})

    @property
    def said_bytes(self) -> int:
        """As in Beat."""
        named = sum(map(len, self.topics or ())) + len(self.regex or "")
        return named + count_of(self.owned or {}) * PARTITION_BYTES

    def with_owned(self, owned: Partitions | None) -> "ConsumerHeartbeat":
        """As in OwningBeat."""
        return replace(self, owned=owned)

    @property
    def is_full(self) -> bool:
        """Whether the member says everything, as after a lost connection: it wants everything."""
        has_subscription = self.topics is not None or self.regex is not None
        has_timeout = self.rebalance_timeout_ms != UNCHANGED_MS
        return self.owned is not None and has_subscription and has_timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    """A member as administrators see it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: MemberEpoch
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    is_classic: bool
    """Whether it uses the classic protocol."""
    assigned: Partitions
    target: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    """A consumer group as administrators see it."""

    error: ErrorCode
    group_id: str
    message: str | None = None
    state: str = ""
    epoch: MemberEpoch = JOIN_EPOCH
    target_epoch: MemberEpoch = JOIN_EPOCH
    assignor: str = ""
    members: Iterable[ConsumerMemberDescription] = ()
    """To be gone through once."""
