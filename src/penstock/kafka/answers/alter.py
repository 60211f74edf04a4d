"""What AlterConfigs and IncrementalAlterConfigs share: the command, and its answer."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.submitting import submit
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ResourceEdits,
)
from penstock.controller.errors import MetadataError
from penstock.controller.resource_config.layers import KEYS_OF
from penstock.controller.topic_config.table import TOPIC_CONFIGS
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.answers.resources import unalterable
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import config_refusal, parted
from penstock.kafka.request import Request
from penstock.kafka.slices import CONFIGS_LOOKED_AT, config_weight

EDITS_MAX = CONFIGS_LOOKED_AT
"""Of one resource, that the controller gets to see: among so many one is unknown or named twice, so
it refuses them all. Making 90,000 takes 70 ms of the loop, here and there."""
assert max(map(len, (TOPIC_CONFIGS, *KEYS_OF.values()))) < EDITS_MAX


def weigh(_context: RequestContext, resource: Any) -> int:
    """Return how many plain resources a resource is, by what it is to be given."""
    return 1 + config_weight(resource.configs)


async def alter(
    context: RequestContext,
    request: Request,
    operation_of: Callable[[Any], int],
    *,
    replace: bool,
) -> Mapping[str, object]:
    """Carry a request out; `operation_of` says what a named configuration is to undergo."""
    permitted, refused = parted(
        context,
        request.body.resources,
        lambda one: config_refusal(
            context, Operation.ALTER_CONFIGS, one.resource_type, one.resource_name
        ),
    )
    results = [_result(one.resource_type, one.resource_name, error) for one, error in refused]
    judged = [(one, unalterable(context, one)) for one in permitted]
    results += [
        _result(one.resource_type, one.resource_name, why) for one, why in judged if why is not None
    ]
    permitted = [one for one, why in judged if why is None]
    if permitted or not results:
        command = AlterConfigs(
            resources=tuple(_edits(one, operation_of) for one in permitted),
            replace=replace,
            validate_only=request.body.validate_only,
        )
        results += await _submit(context, command)
    return {"responses": results}


def _edits(resource: Any, operation_of: Callable[[Any], int]) -> ResourceEdits:
    return ResourceEdits(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        edits=tuple(
            ConfigEdit(key=config.name, operation=operation_of(config), value=config.value)
            for config in islice(resource.configs, EDITS_MAX)
        ),
    )


async def _submit(context: RequestContext, command: AlterConfigs) -> list[Mapping[str, object]]:
    """Return the outcomes by resource; an error of the whole command stands for each of them."""
    outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        resources = command.resources
        return [
            _result(resource.resource_type, resource.resource_name, outcomes)
            for resource in resources
        ]
    return [
        _result(outcome.resource_type, outcome.resource_name, outcome.error) for outcome in outcomes
    ]


def _result(resource_type: int, name: str, error: PlatformError | None) -> Mapping[str, object]:
    return {**error_fields(error), "resource_type": resource_type, "resource_name": name}
