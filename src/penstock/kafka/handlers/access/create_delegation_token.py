"""CreateDelegationToken (key 38), versions 1 to 3: a client gets a token, which logs in as a user.

From version 3 on somebody may ask for a token of another user (KIP-373).

Source: KIP-48; Kafka `KafkaApis.handleCreateTokenRequest`, `DelegationTokenControlManager`. Bounds
and times are the controller's.
"""

from collections.abc import Mapping
from typing import Any

from penstock.access.delegation import TokenSecrets
from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.controller.commands.delegation.commands import CreateToken, NewToken
from penstock.controller.commands.delegation.tokens import RENEWERS_MAX
from penstock.controller.errors import InvalidMetadataRequest
from penstock.kafka.answers.tokens import NO_TIME, milliseconds, principal_fields, user_of
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import check, token_secrets
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.CREATE_DELEGATION_TOKEN
VERSIONS = range(1, 4)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Have the controller make a token, and answer with its HMAC."""
    body, owner = request.body, context.principal
    name = getattr(body, "owner_principal_name", None)
    try:
        secrets = token_secrets(context)
        if name:
            owner = user_of(body.owner_principal_type, name)
        if owner != context.principal:
            check(context, Operation.CREATE_TOKENS, Resource.USER, owner)
        command = _command(context, body, owner, secrets)
    except PlatformError as error:
        return _refused(context, owner, error)
    made = await submit(context.broker, command)
    if isinstance(made, PlatformError):
        return _refused(context, owner, made)
    return _principals(context, owner) | _made(made, secrets)


def _command(context: RequestContext, body: Any, owner: str, secrets: TokenSecrets) -> CreateToken:
    """Raises InvalidMetadataRequest, InvalidPrincipalKind."""
    if len(body.renewers) > RENEWERS_MAX:
        raise InvalidMetadataRequest(f"A token has {RENEWERS_MAX} renewers at most.")
    return CreateToken(
        owner=owner,
        requester=context.principal,
        tag=secrets.tag,
        renewers=tuple(user_of(one.principal_type, one.principal_name) for one in body.renewers),
        lifetime_ms=milliseconds(body.max_lifetime),
    )


def _principals(context: RequestContext, owner: str) -> dict[str, object]:
    requester = principal_fields(context.principal, "token_requester_principal")
    return principal_fields(owner) | requester


def _made(made: NewToken, secrets: TokenSecrets) -> dict[str, object]:
    return {
        "error_code": ErrorCode.NONE,
        "issue_timestamp_ms": made.issued_ms,
        "expiry_timestamp_ms": made.expires_ms,
        "max_timestamp_ms": made.ends_ms,
        "token_id": made.token_id,
        "hmac": secrets.hmac_of(made.token_id),
    }


def _refused(context: RequestContext, owner: str, error: PlatformError) -> dict[str, object]:
    times = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms")
    nothing: dict[str, object] = {"token_id": "", "hmac": b""}
    code = {"error_code": error_code_of(error)}
    return _principals(context, owner) | dict.fromkeys(times, NO_TIME) | nothing | code
