"""One member of a group: who it is, what it offers, and its parked requests.

While a member's JoinGroup or SyncGroup is parked, its callback is kept here. Each callback is
removed before it is called, so none is called twice; a callback that would be overwritten is
answered first, so none is lost.

Source: Kafka, kafka.coordinator.group.MemberMetadata (class comment: what a member consists of).
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.groups.classic.voting import Ballot
from penstock.groups.messages import (
    JoinCallback,
    JoinReply,
    OfferedProtocol,
    SyncCallback,
    SyncReply,
)
from penstock.protocol.error_codes import ErrorCode


def still_there() -> bool:
    """Default for `Member.is_gone`: a member without a parked join has no connection to check."""
    return False


MEMBER_OVERHEAD_BYTES = 1_024
"""Approximate memory of a member besides what its client sent: its objects and deadlines."""


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """State of one member; `is_new` until its first rebalance completes."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    is_gone: Callable[[], bool] = still_there
    """Returns whether the connection of its parked join is closed."""
    _join: JoinCallback | None = None
    _sync: SyncCallback | None = None

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the member; data sent by its client is counted exactly."""
        offered = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        names = len(self.member_id) + len(self.client_id) + len(self.instance_id or "")
        return MEMBER_OVERHEAD_BYTES + names + offered + len(self.assignment)

    @property
    def ballot(self) -> Ballot:
        """The names it offers, each once."""
        return tuple(dict.fromkeys([protocol.name for protocol in self.protocols]))

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def awaits_join(self) -> bool:
        return self._join is not None

    @property
    def awaits_sync(self) -> bool:
        return self._sync is not None

    def park_join(self, reply: JoinCallback) -> None:
        """Keep a join until the rebalance completes; an older one of this member is answered."""
        self.answer_join(JoinReply(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=self.member_id))
        self._join = reply

    def park_sync(self, reply: SyncCallback) -> None:
        """Keep a sync until the assignment is there; an older one of this member is answered."""
        self.answer_sync(SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS))
        self._sync = reply

    def answer_join(self, answer: JoinReply) -> bool:
        """Answer the parked join, if there is one; return whether there was."""
        reply = self.take_join()
        if reply is None:
            return False
        reply(answer)
        return True

    def answer_sync(self, answer: SyncReply) -> bool:
        """Answer the parked sync, if there is one; return whether there was."""
        reply = self.take_sync()
        if reply is None:
            return False
        reply(answer)
        return True

    def take_join(self) -> JoinCallback | None:
        """Remove and return the parked join, if there is one; the caller must answer it."""
        reply, self._join = self._join, None
        return reply

    def take_sync(self) -> SyncCallback | None:
        """Remove and return the parked sync, if there is one; the caller must answer it."""
        reply, self._sync = self._sync, None
        return reply

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """Return what the member offered for a protocol; empty when it does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def describe(self) -> str:
        """Return the fixed-order description used in log lines."""
        return (
            f"member={self.member_id} instance={self.instance_id or '-'} "
            f"client={self.client_id or '-'} host={self.client_host or '-'}"
        )
