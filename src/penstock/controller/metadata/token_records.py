"""Records of delegation tokens: who may log in as whom by a token, and until when.

The secret of a token is in no record: it is derived from the token's id by a key that the processes
of the cluster share. Whoever reads the metadata log can not log in by what it holds.

Source: Kafka's DelegationTokenRecord and RemoveDelegationTokenRecord, KIP-48, KIP-900.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.levels import TOKENS_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenChanged:
    """A token is there, or is good until another time; only `expires_ms` ever changes.

    Principals are texts as `User:name`. Times are ms of the wall clock; a token is good before
    `expires_ms`, which is never above `ends_ms`.
    """

    KIND: ClassVar = RecordKind.DELEGATION_TOKEN_CHANGED
    LEVEL: ClassVar = TOKENS_LEVEL
    token_id: str
    owner: str
    requester: str
    """Who asked for it; another than the owner where somebody may act for the owner."""
    renewers: tuple[str, ...]
    issued_ms: int
    ends_ms: int
    """Until then it can be renewed."""
    expires_ms: int

    def changers(self) -> tuple[str, ...]:
        """Who may renew and expire it."""
        return (self.owner, self.requester, *self.renewers)

    def may_be_changed_by(self, principal: str) -> bool:
        """Whether a principal may renew and expire it."""
        return principal in self.changers()

    def is_over(self, now_ms: int) -> bool:
        """Whether it is good no more."""
        return self.expires_ms <= now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRemoved:
    """The token with this id is gone."""

    KIND: ClassVar = RecordKind.DELEGATION_TOKEN_REMOVED
    LEVEL: ClassVar = TOKENS_LEVEL
    token_id: str
