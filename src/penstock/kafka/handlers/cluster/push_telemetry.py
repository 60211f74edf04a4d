"""PushTelemetry (key 72), version 0: the metrics that a client has been asked for.

Every push has a place among long requests, however short: what it unpacks to and the rows that are
made of it take memory, and so few are handled at a time and one of a connection.

Source: Kafka `KafkaApis.handlePushTelemetryRequest`, KIP-714.
"""

from collections.abc import Mapping

from penstock.broker.audit.client_metrics import Push
from penstock.broker.config import BrokerConfig
from penstock.broker.turns import Pace
from penstock.kafka.answers.clients import attributes_of
from penstock.kafka.audited import who_is
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.telemetry.errors import TelemetryError

KEY = ApiKey.PUSH_TELEMETRY
VERSIONS = range(1)
IS_LONG = True


def is_offered(config: BrokerConfig) -> bool:
    """Clients push by default where the subscriptions are offered."""
    return config.client_metrics


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer once the rows wait to be written."""
    sink, body = context.broker.client_metrics, request.body
    assert sink is not None
    push = Push(
        body.client_instance_id,
        body.subscription_id,
        body.terminating,
        body.compression_type,
        body.metrics,
    )
    client = attributes_of(context, request.connection)
    try:
        await sink.push(push, who_is(context), client, Pace(request.turns))
    except TelemetryError as error:
        return {"error_code": error_code_of(error)}
    return {"error_code": ErrorCode.NONE}
