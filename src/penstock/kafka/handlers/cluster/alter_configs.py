"""AlterConfigs (key 33), versions 0 to 2: what is not named falls back to its default.

Source: Kafka `ControllerApis.handleLegacyAlterConfigs`, KIP-133; superseded by KIP-339.
"""

from collections.abc import Mapping

from penstock.controller.commands.command import ConfigOperation
from penstock.kafka.answers.alter import alter, weigh
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.ALTER_CONFIGS
VERSIONS = range(3)
SLICED_BY = (("resources",),)
WEIGH = weigh


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Replace the configuration of each resource."""
    return await alter(context, request, lambda _: ConfigOperation.SET, replace=True)
