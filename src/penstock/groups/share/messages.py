"""Requests of members of share groups, and their descriptions, independent of wire versions.

Source: the fields of ShareGroupHeartbeat 1 and ShareGroupDescribe 1; KIP-932.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.assignors.partitions import Partitions
from penstock.base.ids import MemberEpoch
from penstock.groups.assigned.messages import JOIN_EPOCH
from penstock.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A member shows that it is alive, and says what has changed; None means unchanged."""

    group_id: str
    member_id: str
    """Made by the client, and kept as long as it lives."""
    member_epoch: MemberEpoch
    """The epoch the member is in; 0 joins, -1 leaves."""
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def names(self) -> frozenset[str]:
        """As in Beat."""
        return frozenset({self.member_id})

    @property
    def said_bytes(self) -> int:
        """As in Beat."""
        return sum(map(len, self.topics or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberDescription:
    """A member as administrators see it."""

    member_id: str
    rack_id: str | None
    member_epoch: MemberEpoch
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assigned: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """A share group as administrators see it."""

    error: ErrorCode
    group_id: str
    message: str | None = None
    state: str = ""
    epoch: MemberEpoch = JOIN_EPOCH
    target_epoch: MemberEpoch = JOIN_EPOCH
    assignor: str = ""
    members: Iterable[ShareMemberDescription] = ()
    """To be gone through once."""
