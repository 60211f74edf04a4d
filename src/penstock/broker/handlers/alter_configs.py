"""AlterConfigs (key 33), versions 0 to 2: what is not named falls back to its default.

Source: Kafka `ControllerApis.handleLegacyAlterConfigs`, KIP-133; superseded by KIP-339.
"""

from collections.abc import Mapping

from penstock.broker.admin_answers import submit
from penstock.broker.alter_answers import answer
from penstock.broker.broker import Broker
from penstock.broker.request import Request
from penstock.controller.commands import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.ALTER_CONFIGS
VERSIONS = range(3)


async def handle(broker: Broker, request: Request) -> Mapping[str, object]:
    """Replace the configuration of each resource."""
    command = AlterConfigs(
        resources=tuple(
            ResourceEdits(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                edits=tuple(
                    ConfigEdit(key=one.name, operation=ConfigOperation.SET, value=one.value)
                    for one in resource.configs
                ),
            )
            for resource in request.body.resources
        ),
        replace=True,
        validate_only=request.body.validate_only,
    )
    return answer(command, await submit(broker, command))
