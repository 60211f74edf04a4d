"""DescribeClientQuotas (key 48), versions 0 and 1: the quotas that a filter finds.

Source: Kafka `KafkaApis.handleDescribeClientQuotasRequest`, `ClientQuotasImage.describe`; KIP-546.
"""

from collections.abc import Mapping

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.controller.errors import InvalidMetadataRequest
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.answers.quotas import entity_fields, filter_in
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.quotas.errors import UnknownEntityKind

KEY = ApiKey.DESCRIBE_CLIENT_QUOTAS
VERSIONS = range(2)
IS_LONG = True
COMPONENTS_MAX = 100
"""Parts that a filter may name: there are three."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with the quotas as they are when the request comes."""
    refused: PlatformError | None = refusal(context, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)
    if refused is not None:
        return _refused(refused)
    if len(request.body.components) > COMPONENTS_MAX:
        return _refused(InvalidMetadataRequest(f"A filter has {COMPONENTS_MAX} parts at most"))
    try:
        wanted = filter_in(request.body)
    except (InvalidMetadataRequest, UnknownEntityKind) as error:
        return _refused(error)
    pace = Pace(request.turns)
    entries: list[Mapping[str, object]] = []
    for entity, values in list(context.broker.metadata.configuration.quotas.items()):
        await pace.step()
        if wanted.matches(entity):
            told = [{"key": key, "value": value} for key, value in sorted(values.items())]
            entries.append({"entity": entity_fields(entity), "values": told})
    return error_fields(None) | {"entries": entries}


def _refused(error: PlatformError) -> Mapping[str, object]:
    return error_fields(error) | {"entries": None}
