"""RenewDelegationToken (key 39), versions 1 and 2: a token is good for longer, up to its end.

Whoever may renew a token is its owner, who asked for it, or one of its renewers.

Source: KIP-48; Kafka `KafkaApis.handleRenewTokenRequest`, `DelegationTokenControlManager`.
"""

from collections.abc import Mapping

from penstock.base.errors import PlatformError
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.delegation.commands import RenewToken
from penstock.kafka.answers.tokens import expiry_fields, milliseconds, token_with
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import token_secrets
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.RENEW_DELEGATION_TOKEN
VERSIONS = range(1, 3)
IS_LONG = True


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Renew the token with this HMAC."""
    body = request.body
    try:
        secrets = token_secrets(context)
    except PlatformError as error:
        return expiry_fields(error)
    token_id = await token_with(context, body.hmac, secrets, Pace(request.turns))
    period_ms = milliseconds(body.renew_period)
    command = RenewToken(token_id=token_id, asker=context.principal, period_ms=period_ms)
    return expiry_fields(await submit(context.broker, command))
