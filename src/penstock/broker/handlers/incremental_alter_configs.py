"""IncrementalAlterConfigs (key 44), versions 0 and 1: SET, DELETE, APPEND, SUBTRACT.

Source: Kafka `ControllerApis.handleIncrementalAlterConfigs`, KIP-339.
"""

from collections.abc import Mapping

from penstock.broker.admin_answers import submit
from penstock.broker.alter_answers import answer
from penstock.broker.broker import Broker
from penstock.broker.request import Request
from penstock.controller.commands import AlterConfigs, ConfigEdit, ResourceEdits
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = range(2)


async def handle(broker: Broker, request: Request) -> Mapping[str, object]:
    """Change what is named of each resource."""
    command = AlterConfigs(
        resources=tuple(
            ResourceEdits(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                edits=tuple(
                    ConfigEdit(key=one.name, operation=one.config_operation, value=one.value)
                    for one in resource.configs
                ),
            )
            for resource in request.body.resources
        ),
        validate_only=request.body.validate_only,
    )
    return answer(command, await submit(broker, command))
