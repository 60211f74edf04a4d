"""Who a client is, for patterns that choose whose metrics are wanted.

Source: Kafka `ClientMetricsInstanceMetadata`; `ClientInformation` (a client that does not say which
software it is has "unknown").
"""

from collections.abc import Mapping

from penstock.kafka.context import TEXT_KEPT_MAX, RequestContext
from penstock.net.connection import Connection

UNKNOWN = "unknown"


def attributes_of(context: RequestContext, connection: Connection) -> Mapping[str, str]:
    """Return what patterns are compared with, beside the id of the client instance."""
    told = {
        "client_software_name": context.software.name or UNKNOWN,
        "client_software_version": context.software.version or UNKNOWN,
        "client_source_address": context.host,
        "client_source_port": str(connection.client_port),
    }
    if context.client_id is not None:
        told["client_id"] = context.client_id[:TEXT_KEPT_MAX]
    return told
