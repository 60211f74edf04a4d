"""ListConfigResources (key 74), versions 0 and 1: what has, or could have, a configuration.

Version 0 (ListClientMetricsResources) asks for client metrics alone. Topics and brokers are listed
because they are there; groups and client metrics where something is set for them, whether they
exist or not. A broker's loggers have no configuration here, so none are listed.

Source: Kafka `KafkaApis.handleListConfigResources`, KIP-714, KIP-1142.
"""

from collections.abc import Iterable, Mapping

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.controller.metadata.kinds import KEPT_RESOURCES, ResourceType
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import all_topics, refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.LIST_CONFIG_RESOURCES
VERSIONS = range(2)
IS_LONG = True
TYPES_VERSION = 1
"""From here on the request says which types."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """List what the request asks for; without types, all."""
    refused = refusal(context, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
    if refused is not None:
        return {"error_code": error_code_of(refused), "config_resources": ()}
    wanted = {ResourceType.CLIENT_METRICS}
    if request.api_version >= TYPES_VERSION:
        asked = frozenset(request.body.resource_types) or frozenset(ResourceType)
        wanted = {one for one in ResourceType if one in asked}
        if len(wanted) < len(asked):
            return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "config_resources": ()}
    pace = Pace(request.turns)
    found: list[Mapping[str, object]] = []
    for kind in sorted(wanted):
        for name in _names(context, kind):
            await pace.step()
            found.append({"resource_name": name, "resource_type": kind})
    return {"error_code": ErrorCode.NONE, "config_resources": found}


def _names(context: RequestContext, kind: ResourceType) -> Iterable[str]:
    """Return the names as they are now: what is made meanwhile is not listed."""
    metadata = context.broker.metadata
    if kind is ResourceType.TOPIC:
        return [topic.name for topic in all_topics(context.broker)]
    if kind is ResourceType.BROKER:
        return [str(broker_id) for broker_id in sorted(metadata.brokers)]
    if kind not in KEPT_RESOURCES:
        return ()
    return sorted(name for one, name in metadata.configuration.resources if one is kind)
