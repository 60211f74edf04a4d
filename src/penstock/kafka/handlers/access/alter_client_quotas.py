"""AlterClientQuotas (key 49), versions 0 and 1: quotas are set and taken away, entity by entity.

A null name is the default of its kind. With validate_only nothing is changed.

Source: Kafka `ControllerApis.handleAlterClientQuotas`, `ClientQuotaControlManager`; KIP-546. Checks
of values are the controller's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.errors import PlatformError, as_answer
from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange, QuotaOutcome
from penstock.controller.errors import InvalidMetadataRequest, MetadataError
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.answers.quotas import entity_fields, entity_in, values_in
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.quotas.entities import QuotaEntity

KEY = ApiKey.ALTER_CLIENT_QUOTAS
VERSIONS = range(2)
IS_LONG = True
PARTS_MAX = 10
"""Parts and keys of one entry: there are three and five."""
CHANGED_TOGETHER = 50
"""Entries of one command: an entry of the metadata log that takes a millisecond to replay. Not by
SLICED_BY: two entries with the same outcome would be taken for parts of one."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Have the controller change them, and answer entry by entry."""
    entries, is_dry = request.body.entries, request.body.validate_only
    refused = refusal(context, Operation.ALTER_CONFIGS, Resource.CLUSTER)
    pace, seen = Pace(request.turns), set[QuotaEntity]()
    told: list[Mapping[str, object]] = []
    for at in range(0, len(entries), CHANGED_TOGETHER):
        some = entries[at : at + CHANGED_TOGETHER]
        await pace.step(len(some))
        said = [refused or _change(one, seen) for one in some]
        errors = await _altered(context, said, validate_only=is_dry)
        told += [
            {**error_fields(error), "entity": _parts(asked)}
            for asked, error in zip(some, errors, strict=True)
        ]
    return {"entries": told}


def _change(asked: Any, seen: set[QuotaEntity]) -> QuotaChange | PlatformError:
    """Return the change of an entry, or why there is none."""
    if max(len(asked.entity), len(asked.ops)) > PARTS_MAX:
        return InvalidMetadataRequest(f"An entry has {PARTS_MAX} parts and keys at most")
    try:
        change = QuotaChange(entity=entity_in(asked), values=values_in(asked))
    except InvalidMetadataRequest as error:
        return as_answer(error)
    if change.entity in seen:
        return InvalidMetadataRequest("The entity is there twice in the request")
    seen.add(change.entity)
    return change


async def _altered(
    context: RequestContext, said: Sequence[QuotaChange | PlatformError], *, validate_only: bool
) -> list[PlatformError | None]:
    """Return what went wrong with each; an error of the whole command is that of all its parts."""
    changes = tuple(one for one in said if isinstance(one, QuotaChange))
    outcomes: Sequence[QuotaOutcome] | MetadataError = ()
    if changes:
        command = AlterQuotas(changes=changes, validate_only=validate_only)
        outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        return [outcomes if isinstance(one, QuotaChange) else one for one in said]
    errors = iter([one.error for one in outcomes])
    return [next(errors) if isinstance(one, QuotaChange) else one for one in said]


def _parts(asked: Any) -> list[Mapping[str, object]]:
    named = asked.entity[:PARTS_MAX]
    return entity_fields((one.entity_type, one.entity_name) for one in named)
