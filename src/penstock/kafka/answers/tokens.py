"""Delegation tokens as requests and answers have them.

Answers have no text beside the error's code: the four APIs have no field for one.

Source: KIP-48, KIP-373; Kafka `CreateDelegationTokenResponse.prepareResponse`.
"""

from collections.abc import Mapping
from datetime import timedelta

from penstock.access.delegation import TokenSecrets
from penstock.base.errors import PlatformError
from penstock.broker.errors import InvalidPrincipalKind
from penstock.broker.turns import Pace
from penstock.controller.metadata.token_records import DelegationTokenChanged
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.protocol.error_codes import ErrorCode

USER = "User"
NO_TIME = -1
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(span: timedelta) -> int:
    """Return a field of a request as ms; whatever is below 0 stands for -1."""
    return max(span // _MILLISECOND, -1)


def user_of(kind: str | None, name: str) -> str:
    """Return the principal of a user. Raises InvalidPrincipalKind."""
    if kind != USER:
        raise InvalidPrincipalKind
    return f"{USER}:{name}"


def principal_fields(principal: str, prefix: str = "principal") -> dict[str, object]:
    """Return type and name of a principal."""
    kind, _, name = principal.partition(":")
    return {f"{prefix}_type": kind, f"{prefix}_name": name}


def expiry_fields(outcome: int | PlatformError) -> Mapping[str, object]:
    """Return until when a token is good, or why it was not changed."""
    if isinstance(outcome, PlatformError):
        return {"error_code": error_code_of(outcome), "expiry_timestamp_ms": NO_TIME}
    return {"error_code": ErrorCode.NONE, "expiry_timestamp_ms": outcome}


def token_fields(token: DelegationTokenChanged, secrets: TokenSecrets) -> dict[str, object]:
    """Return what is described of a token; the HMAC is empty where its secret is not here."""
    return {
        **principal_fields(token.owner),
        **principal_fields(token.requester, "token_requester_principal"),
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.ends_ms,
        "token_id": token.token_id,
        "hmac": secrets.hmac_of(token.token_id),
        "renewers": [principal_fields(one) for one in token.renewers],
    }


async def token_with(
    context: RequestContext, proof: bytes, secrets: TokenSecrets, pace: Pace
) -> str:
    """Return the id of the token with this HMAC; empty if there is none.

    Nothing but an id is stored of a token, so the HMACs of all are computed: 5 us each.
    """
    for token_id in list(context.broker.metadata.configuration.tokens):
        await pace.step()
        if secrets.has(token_id, proof):
            return token_id
    return ""
