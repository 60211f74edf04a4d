"""DeleteAcls (key 31), versions 1 to 3: the rules that filters find are removed, and told.

    wait until the image here holds all that was confirmed ─► find ─► remove, a hundred at a time

A rule that was added through another broker before this request is found. Rules are removed by
their ids: what another request removes meanwhile is told there and not here. Above a hundred, a
failure may come in between: then the filter has an error, and the answer tells what is gone.

Source: Kafka `AclApis.handleDeleteAcls`, `AclControlManager.deleteAcls`; KIP-140, KIP-290. Kafka
removes all that a request finds at once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.access.filters import RuleFilter
from penstock.access.rules import Rule
from penstock.base.errors import PlatformError, as_answer
from penstock.broker.access import Operation
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.access.commands import RemoveAcls
from penstock.controller.errors import InvalidMetadataRequest, MetadataError
from penstock.kafka.answers.acls import entry_fields, filter_of, resource_fields
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import acl_refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.DELETE_ACLS
VERSIONS = range(1, 4)
IS_LONG = True
REMOVED_TOGETHER = 100
"""Rules of one command: an entry of the metadata log that takes a millisecond to replay."""
OPEN_FILTERS_MAX = 100
"""Filters of one request that leave a part open: each is compared with all rules, 10 ms for 20,000.
"""
FOUND_MAX = 40_000
"""Rules that one answer tells: one that several filters find is told for each."""
LOOKED_AT_TOGETHER = 100


class _Found(NamedTuple):
    """What a filter finds, or what is wrong with it."""

    rules: Sequence[Rule] = ()
    error: PlatformError | None = None


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Remove the rules, and answer filter by filter."""
    filters = request.body.filters
    refused = acl_refusal(context, Operation.ALTER)
    if refused is None:
        # Answered when the image here holds what was confirmed before.
        current = await submit(context.broker, RemoveAcls(acl_ids=()))
        refused = current if isinstance(current, MetadataError) else None
    pace = Pace(request.turns)
    if refused is not None:
        refusals = []
        for _ in filters:
            await pace.step()
            refusals.append(_result(_Found(error=refused), set()))
        return {"filter_results": refusals}
    found = await _find(context, filters, pace)
    gone, error = await _remove(context, dict.fromkeys(rule for one in found for rule in one.rules))
    results = []
    for one in found:
        await pace.step(1 + len(one.rules))
        is_whole = error is None or all(rule in gone for rule in one.rules)
        results.append(_result(one if is_whole else one._replace(error=error), gone))
    return {"filter_results": results}


async def _find(context: RequestContext, filters: Sequence[Any], pace: Pace) -> list[_Found]:
    rules = [*context.broker.metadata.configuration.acl_ids]
    search = _Search(context, rules, pace)
    found: list[_Found] = []
    for asked in filters:
        await pace.step()
        try:
            found.append(_Found(await search.find(filter_of(asked))))
        except InvalidMetadataRequest as error:
            found.append(_Found(error=as_answer(error)))
    return found


class _Search:
    """Goes through the rules for the filters of one request, within its bounds."""

    def __init__(self, context: RequestContext, rules: Sequence[Rule], pace: Pace) -> None:
        self._known = context.broker.metadata.configuration.acl_ids
        self._rules = rules
        self._pace = pace
        self._filters_left = OPEN_FILTERS_MAX
        self._rules_left = FOUND_MAX

    async def find(self, wanted: RuleFilter) -> list[Rule]:
        """Return the rules that a filter finds. Raises InvalidMetadataRequest."""
        only = wanted.only_rule()
        if only is not None:
            return [only] if only in self._known else []
        self._filters_left -= 1
        if self._filters_left < 0:
            raise InvalidMetadataRequest(
                f"A request has at most {OPEN_FILTERS_MAX} filters that leave a part open"
            )
        found: list[Rule] = []
        for at in range(0, len(self._rules), LOOKED_AT_TOGETHER):
            await self._pace.step()
            found += filter(wanted.matches, self._rules[at : at + LOOKED_AT_TOGETHER])
        if len(found) > self._rules_left:
            raise InvalidMetadataRequest(f"An answer tells at most {FOUND_MAX} rules")
        self._rules_left -= len(found)
        return found


async def _remove(
    context: RequestContext, rules: Iterable[Rule]
) -> tuple[set[Rule], MetadataError | None]:
    """Remove rules; return those that are gone by this request, and why others are not."""
    known = context.broker.metadata.configuration.acl_ids
    by_id = {known[rule]: rule for rule in rules if rule in known}
    ids = [*by_id]
    gone: set[Rule] = set()
    for at in range(0, len(ids), REMOVED_TOGETHER):
        command = RemoveAcls(acl_ids=tuple(ids[at : at + REMOVED_TOGETHER]))
        removed = await submit(context.broker, command)
        if isinstance(removed, MetadataError):
            return gone, removed
        gone.update(by_id[acl_id] for acl_id in removed)
    return gone, None


def _result(found: _Found, gone: Collection[Rule]) -> Mapping[str, object]:
    return {
        **error_fields(found.error),
        "matching_acls": [
            {**error_fields(None), **resource_fields(rule), **entry_fields(rule)}
            for rule in found.rules
            if rule in gone
        ],
    }
