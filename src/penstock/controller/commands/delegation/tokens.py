"""Delegation tokens: made, renewed up to their end, ended, and removed once they are over.

              renew: expires_ms = now + period, at most ends_ms
             ┌──────┐
    create ─►│ good │── now >= expires_ms ─► over ── the active controller ─► gone
             └──────┘── expire, period < 0 ──────────────────────────────────► gone

A token that is over can not be renewed. All times are of the active controller's wall clock: one
that runs late lets tokens be good for longer by as much.

Source: Kafka `DelegationTokenControlManager`, KIP-48, KIP-900 (tokens in the metadata log).
"""

import base64
from dataclasses import replace
from itertools import islice

from penstock.controller.commands.access.login_secret import chosen_secret
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.delegation.commands import (
    CreateToken,
    ExpireToken,
    NewToken,
    RemoveExpiredTokens,
    RenewToken,
)
from penstock.controller.errors import (
    InvalidMetadataRequest,
    MetadataPolicyViolation,
    NotOwnerOfToken,
    TokenExpired,
    TokenNotFound,
)
from penstock.controller.metadata.token_records import (
    DelegationTokenChanged,
    DelegationTokenRemoved,
)

TOKENS_MAX = 10_000
"""All processes hold them in memory, with 500 bytes each where names are short; a look through all
takes 1 ms."""
TOKENS_OF_OWNER_MAX = 1_000
RENEWERS_MAX = 100
PRINCIPAL_CHARACTERS_MAX = 1_024
TAG_CHARACTERS_MAX = 16
REMOVED_MAX = 1_000
"""Tokens that one entry of the log removes."""


def create_token(context: CommandContext, command: CreateToken) -> Result[NewToken]:
    """Make a token. Raises InvalidMetadataRequest, MetadataPolicyViolation."""
    _check_principals(command)
    tokens = context.image.configuration.tokens
    if len(tokens) >= TOKENS_MAX:
        raise MetadataPolicyViolation(f"{TOKENS_MAX} delegation tokens are the most.")
    if sum(one.owner == command.owner for one in tokens.values()) >= TOKENS_OF_OWNER_MAX:
        raise MetadataPolicyViolation(f"An owner has {TOKENS_OF_OWNER_MAX} tokens at most.")
    now_ms, longest_ms = context.wall_ms(), context.config.delegation_token_max_lifetime_ms
    asked_ms = command.lifetime_ms if command.lifetime_ms > 0 else longest_ms
    ends_ms = now_ms + min(asked_ms, longest_ms)
    record = DelegationTokenChanged(
        token_id=_new_id(context, command.tag),
        owner=command.owner,
        requester=command.requester,
        renewers=tuple(dict.fromkeys(command.renewers)),
        issued_ms=now_ms,
        ends_ms=ends_ms,
        expires_ms=min(now_ms + context.config.delegation_token_expiry_time_ms, ends_ms),
    )
    made = NewToken(
        token_id=record.token_id,
        issued_ms=now_ms,
        expires_ms=record.expires_ms,
        ends_ms=ends_ms,
    )
    return Result(made, (*chosen_secret(context), record))


def renew_token(context: CommandContext, command: RenewToken) -> Result[int]:
    """Renew a token. Raises TokenNotFound, NotOwnerOfToken, TokenExpired."""
    token = _token(context, command)
    period_ms = context.config.delegation_token_expiry_time_ms
    if command.period_ms > 0:
        period_ms = min(period_ms, command.period_ms)
    return _until(token, context.wall_ms(), period_ms)


def expire_token(context: CommandContext, command: ExpireToken) -> Result[int]:
    """End a token. Raises TokenNotFound, NotOwnerOfToken, TokenExpired.

    One that is over can still be removed at once.
    """
    token = _token(context, command)
    now_ms = context.wall_ms()
    if command.period_ms < 0:
        return Result(now_ms, (DelegationTokenRemoved(token_id=token.token_id),))
    return _until(token, now_ms, command.period_ms)


def remove_expired_tokens(context: CommandContext, _: RemoveExpiredTokens) -> Result[int]:
    """Remove tokens that are over, a bounded number of them."""
    now_ms, tokens = context.wall_ms(), context.image.configuration.tokens.values()
    over = islice((one.token_id for one in tokens if one.is_over(now_ms)), REMOVED_MAX)
    records = tuple(DelegationTokenRemoved(token_id=token_id) for token_id in over)
    return Result(len(records), records)


def _new_id(context: CommandContext, tag: str) -> str:
    """Return the tag of the secret that the token is of, and 128 random bits."""
    if not (tag.isascii() and tag.isalnum() and len(tag) <= TAG_CHARACTERS_MAX):
        raise InvalidMetadataRequest("A token's tag says of which secret it is.")
    drawn = base64.urlsafe_b64encode(context.new_topic_id()).rstrip(b"=").decode()
    return f"{tag}-{drawn}"


def _check_principals(command: CreateToken) -> None:
    if len(command.renewers) > RENEWERS_MAX:
        raise InvalidMetadataRequest(f"A token has {RENEWERS_MAX} renewers at most.")
    for principal in (command.owner, command.requester, *command.renewers):
        kind, _, name = principal.partition(":")
        if not kind or not name or len(principal) > PRINCIPAL_CHARACTERS_MAX:
            raise InvalidMetadataRequest(
                f"A principal is a text as User:name of {PRINCIPAL_CHARACTERS_MAX} characters at"
                " most."
            )


def _token(context: CommandContext, command: RenewToken | ExpireToken) -> DelegationTokenChanged:
    token = context.image.configuration.tokens.get(command.token_id)
    if token is None:
        raise TokenNotFound("There is no such delegation token.")
    if not token.may_be_changed_by(command.asker):
        raise NotOwnerOfToken("Only a token's owner, requester and renewers may change it.")
    return token


def _until(token: DelegationTokenChanged, now_ms: int, period_ms: int) -> Result[int]:
    """Let the token be good for a period from now, and not after its end."""
    if token.is_over(now_ms):
        raise TokenExpired("The delegation token is over.")
    expires_ms = min(now_ms + period_ms, token.ends_ms)
    return Result(expires_ms, (replace(token, expires_ms=expires_ms),))
