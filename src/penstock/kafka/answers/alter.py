"""What AlterConfigs and IncrementalAlterConfigs share: the command, and its answer."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.submitting import submit
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOutcome,
    ResourceEdits,
)
from penstock.controller.errors import MetadataError
from penstock.controller.topic_config.table import TOPIC_CONFIGS
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.request import Request

EDITS_MAX = 200
"""Of one resource, that the controller gets to see: among so many one is unknown or named twice, so
it refuses them all. Making 90,000 takes 70 ms of the loop, here and there."""
assert len(TOPIC_CONFIGS) < EDITS_MAX


async def alter(
    broker: Broker, request: Request, operation_of: Callable[[Any], int], *, replace: bool
) -> Mapping[str, object]:
    """Carry a request out; `operation_of` says what a named configuration is to undergo."""
    command = AlterConfigs(
        resources=tuple(
            ResourceEdits(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                edits=tuple(
                    ConfigEdit(key=one.name, operation=operation_of(one), value=one.value)
                    for one in islice(resource.configs, EDITS_MAX)
                ),
            )
            for resource in request.body.resources
        ),
        replace=replace,
        validate_only=request.body.validate_only,
    )
    return _answer(command, await submit(broker, command))


def _answer(
    command: AlterConfigs, outcomes: tuple[ConfigOutcome, ...] | MetadataError
) -> Mapping[str, object]:
    """Answer resource by resource; an error of the whole command stands for each of them."""
    if isinstance(outcomes, MetadataError):
        outcomes = tuple(
            ConfigOutcome(
                resource_type=one.resource_type, resource_name=one.resource_name, error=outcomes
            )
            for one in command.resources
        )
    return {
        "responses": [
            {
                **error_fields(one.error),
                "resource_type": one.resource_type,
                "resource_name": one.resource_name,
            }
            for one in outcomes
        ]
    }
