"""Commands that make, renew and end delegation tokens.

Principals are texts as `User:name`; whether they may ask at all is decided before. Periods are ms.

Source: Kafka's CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken requests.
"""

from dataclasses import dataclass

from penstock.controller.commands.command import Command


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was made; times are ms of the wall clock."""

    token_id: str
    issued_ms: int
    expires_ms: int
    ends_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(Command[NewToken]):
    """Make a token by which the owner's name is used; without a lifetime it has the longest."""

    owner: str
    requester: str
    tag: str
    """Of the secret that its password is derived from; the token's id begins with it."""
    renewers: tuple[str, ...] = ()
    lifetime_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewToken(Command[int]):
    """Make a token good from now for a period, at most the usual one, which 0 and below stand for;
    answers its expiry.
    """

    token_id: str
    asker: str
    period_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireToken(Command[int]):
    """Let a token end after a period; below 0 it is gone at once. Answers its expiry."""

    token_id: str
    asker: str
    period_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpiredTokens(Command[int]):
    """Remove tokens that are over, a bounded number at a time; answers how many."""
