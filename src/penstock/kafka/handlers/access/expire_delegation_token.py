"""ExpireDelegationToken (key 40), versions 1 and 2: a token ends sooner, or at once.

Who may do it is who may renew it. A period below 0 removes the token at once; sessions that it has
begun live on until they have to prove it again.

Source: KIP-48; Kafka `KafkaApis.handleExpireTokenRequest`, `DelegationTokenControlManager`.
"""

from collections.abc import Mapping

from penstock.base.errors import PlatformError
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.delegation.commands import ExpireToken
from penstock.kafka.answers.tokens import expiry_fields, milliseconds, token_with
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import token_secrets
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.EXPIRE_DELEGATION_TOKEN
VERSIONS = range(1, 3)
IS_LONG = True


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """End the token with this HMAC, now or after a period."""
    body = request.body
    try:
        secrets = token_secrets(context)
    except PlatformError as error:
        return expiry_fields(error)
    token_id = await token_with(context, body.hmac, secrets, Pace(request.turns))
    period_ms = milliseconds(body.expiry_time_period)
    command = ExpireToken(token_id=token_id, asker=context.principal, period_ms=period_ms)
    return expiry_fields(await submit(context.broker, command))
