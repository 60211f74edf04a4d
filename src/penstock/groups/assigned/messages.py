"""Heartbeats of members whose coordinator assigns, and their answers, whatever the kind of group.

Source: the fields of ConsumerGroupHeartbeat 0-1 and ShareGroupHeartbeat 1; KIP-848, KIP-932.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.assignors.partitions import Partitions
from penstock.base.ids import MemberEpoch
from penstock.protocol.error_codes import ErrorCode

JOIN_EPOCH = MemberEpoch(0)
LEFT_EPOCH = MemberEpoch(-1)
"""Epoch with which a member leaves for good."""


class Beat(Protocol):
    """A heartbeat as the queue of its group sees it."""

    @property
    def member_id(self) -> str: ...

    @property
    def names(self) -> frozenset[str]:
        """Whom it is about: no two that share a name are decided together."""

    @property
    def said_bytes(self) -> int:
        """Approximate memory of what it names: topics, partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """The answer; `assignment` is None where the member knows it already."""

    error: ErrorCode
    message: str | None = None
    member_id: str = ""
    member_epoch: MemberEpoch = JOIN_EPOCH
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


HeartbeatCallback = Callable[[HeartbeatReply], None]


def refused(error: ErrorCode, message: str) -> HeartbeatReply:
    """Return an answer with a reason."""
    return HeartbeatReply(error=error, message=message)
