"""DescribeAcls (key 29), versions 1 to 3: the rules that a filter finds, by resource.

Source: Kafka `AclApis.handleDescribeAcls`; KIP-140, KIP-290 (patterns), KIP-373 (users, v3).
"""

from collections.abc import Mapping

from penstock.access.rules import AclPattern, AclResource
from penstock.broker.access import Operation
from penstock.broker.turns import Pace
from penstock.controller.errors import InvalidMetadataRequest
from penstock.kafka.answers.acls import entry_fields, filter_of, resource_fields
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import acl_refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.DESCRIBE_ACLS
VERSIONS = range(1, 4)
IS_LONG = True
LOOKED_AT_TOGETHER = 100
"""Rules that are compared with the filter between two looks at the clock: 50 us."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with the rules as they are when the request comes."""
    refused = acl_refusal(context, Operation.DESCRIBE)
    if refused is not None:
        return {**error_fields(refused), "resources": ()}
    try:
        wanted = filter_of(request.body)
    except InvalidMetadataRequest as error:
        return {**error_fields(error), "resources": ()}
    pace = Pace(request.turns)
    found: dict[tuple[AclResource, AclPattern, str], list[Mapping[str, object]]] = {}
    resources: list[Mapping[str, object]] = []
    for number, rule in enumerate([*context.broker.metadata.configuration.acl_ids]):
        if number % LOOKED_AT_TOGETHER == 0:
            await pace.step()
        if not wanted.matches(rule):
            continue
        await pace.step()
        key = (rule.resource_type, rule.pattern, rule.resource_name)
        if key not in found:
            found[key] = []
            resources.append({**resource_fields(rule), "acls": found[key]})
        found[key].append(entry_fields(rule))
    return {**error_fields(None), "resources": resources}
