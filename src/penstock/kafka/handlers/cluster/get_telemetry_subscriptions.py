"""GetTelemetrySubscriptions (key 71), version 0: which metrics of itself a client is to push.

Offered where the node takes them (`broker.client_metrics`). As in Kafka it needs no permission.

Source: Kafka `KafkaApis.handleGetTelemetrySubscriptionsRequest`, KIP-714.
"""

from datetime import timedelta

from penstock.broker.config import BrokerConfig
from penstock.kafka.answers.clients import attributes_of
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.compression import GZIP, LZ4, SNAPPY, ZSTD
from penstock.telemetry.errors import TelemetryError

KEY = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
VERSIONS = range(1)
ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)
"""In the order of preference, as in Kafka: clients take the first that they know."""


def is_offered(config: BrokerConfig) -> bool:
    """Clients push by default where this is offered."""
    return config.client_metrics


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer from memory."""
    sink = context.broker.client_metrics
    assert sink is not None
    given = request.body.client_instance_id
    try:
        instance_id, asked = sink.get(given, attributes_of(context, request.connection))
    except TelemetryError as error:
        reply({"error_code": error_code_of(error), "client_instance_id": given})
        return
    reply({
        "error_code": ErrorCode.NONE,
        "client_instance_id": instance_id,
        "subscription_id": asked.subscription_id,
        "accepted_compression_types": ACCEPTED,
        "push_interval": timedelta(milliseconds=asked.interval_ms),
        "telemetry_max_bytes": sink.bytes_max,
        "delta_temporality": True,
        "requested_metrics": asked.metrics,
    })  # fmt: skip
