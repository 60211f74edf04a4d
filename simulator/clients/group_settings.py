"""Settings of consumer groups, as an administrator sets them."""

from collections.abc import Mapping
from random import Random

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, open_any, pause

GROUP_RESOURCE, SET = 32, 0
ALTER_VERSION = 1


async def set_of_group(
    world: ClientWorld, random: Random, group: str, settings: Mapping[str, str]
) -> None:
    """Set these for a group; returns when it is so, or the run is over."""
    edits = [
        {"name": name, "config_operation": SET, "value": value} for name, value in settings.items()
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": edits}
    fields = {"resources": [resource], "validate_only": False}
    while not world.is_over:
        try:
            link = await open_any(world, random)
            try:
                answer = await link.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, fields)
            finally:
                link.close()
            if answer.responses[0].error_code == ErrorCode.NONE:
                return
        except LinkFailed:
            pass
        await pause(random)
