"""DescribeDelegationToken (key 41), versions 1 to 3: tokens of owners, or all that one may see.

A client sees its own tokens, those that it asked for, and those that it may renew; others where it
may describe the token, or the tokens of their owner. The rest is left out, as if it were not there.

Source: KIP-48, KIP-373; Kafka `KafkaApis.handleDescribeTokensRequest`,
`DelegationTokenManager.filterToken`. As there, no owners are no tokens, and null is all owners.
"""

from collections.abc import Mapping

from penstock.base.errors import PlatformError
from penstock.broker.turns import Pace
from penstock.controller.metadata.token_records import DelegationTokenChanged
from penstock.kafka.answers.tokens import token_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import may_see_token, token_secrets
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_DELEGATION_TOKEN
VERSIONS = range(1, 4)
IS_LONG = True


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Describe them, with their HMACs."""
    try:
        secrets = token_secrets(context)
    except PlatformError as error:
        return {"error_code": error_code_of(error), "tokens": ()}
    pace = Pace(request.turns)
    owners = await _owners(request, pace)
    told: list[Mapping[str, object]] = []
    for token in list(context.broker.metadata.configuration.tokens.values()):
        await pace.step()
        if _is_wanted(token, owners) and _is_seen(context, token):
            told.append(token_fields(token, secrets))
    return {"error_code": ErrorCode.NONE, "tokens": told}


async def _owners(request: Request, pace: Pace) -> frozenset[str] | None:
    """Return the principals whose tokens are asked for; None for all."""
    if request.body.owners is None:
        return None
    found = set[str]()
    for one in request.body.owners:
        await pace.step()
        found.add(f"{one.principal_type}:{one.principal_name}")
    return frozenset(found)


def _is_wanted(token: DelegationTokenChanged, owners: frozenset[str] | None) -> bool:
    """As in Kafka, somebody's tokens are also those that they asked for or may renew."""
    return owners is None or not owners.isdisjoint(token.changers())


def _is_seen(context: RequestContext, token: DelegationTokenChanged) -> bool:
    if token.may_be_changed_by(context.principal):
        return True
    return may_see_token(context, token.token_id, token.owner)
