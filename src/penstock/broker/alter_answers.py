"""The answer that AlterConfigs and IncrementalAlterConfigs share."""

from collections.abc import Mapping

from penstock.broker.admin_answers import error_fields
from penstock.controller.commands import AlterConfigs, ConfigOutcome
from penstock.controller.errors import MetadataError


def answer(
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
