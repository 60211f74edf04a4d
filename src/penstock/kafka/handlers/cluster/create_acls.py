"""CreateAcls (key 30), versions 1 to 3: rules are added, each with an outcome of its own.

A rule that is there already is no error, and stays there once.

Source: Kafka `AclApis.handleCreateAcls`, `AclControlManager`; KIP-140, KIP-290. Checks are the
controller's.
"""

from collections.abc import Mapping

from penstock.access.rules import Rule
from penstock.base.errors import PlatformError, as_answer
from penstock.broker.access import Operation
from penstock.broker.submitting import submit
from penstock.controller.commands.access.commands import AddAcls
from penstock.controller.errors import InvalidMetadataRequest, MetadataError
from penstock.kafka.answers.acls import rule_of
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import acl_refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.CREATE_ACLS
VERSIONS = range(1, 4)
SLICED_BY = (("creations",),)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Add the rules, and answer entry by entry."""
    creations = request.body.creations
    refused = acl_refusal(context, Operation.ALTER)
    if refused is not None:
        return {"results": [error_fields(refused) for _ in creations]}
    said: list[Rule | PlatformError] = []
    for one in creations:
        try:
            said.append(rule_of(one))
        except InvalidMetadataRequest as error:
            said.append(as_answer(error))
    rules = tuple(dict.fromkeys(one for one in said if isinstance(one, Rule)))
    errors = await _added(context, rules)
    return {
        "results": [error_fields(errors[one] if isinstance(one, Rule) else one) for one in said]
    }


async def _added(
    context: RequestContext, rules: tuple[Rule, ...]
) -> Mapping[Rule, PlatformError | None]:
    """Return what went wrong with each; an error of the whole command stands for all of them."""
    if not rules:
        return {}
    outcomes = await submit(context.broker, AddAcls(acls=rules))
    if isinstance(outcomes, MetadataError):
        return dict.fromkeys(rules, outcomes)
    return {rule: one.error for rule, one in zip(rules, outcomes, strict=True)}
