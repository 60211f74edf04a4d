"""IncrementalAlterConfigs (key 44), versions 0 and 1: SET, DELETE, APPEND, SUBTRACT.

Source: Kafka `ControllerApis.handleIncrementalAlterConfigs`, KIP-339.
"""

from collections.abc import Mapping
from operator import attrgetter

from penstock.kafka.answers.alter import alter, weigh
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = range(2)
SLICED_BY = (("resources",),)
WEIGH = weigh


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Change what is named of each resource."""
    return await alter(context, request, attrgetter("config_operation"), replace=False)
