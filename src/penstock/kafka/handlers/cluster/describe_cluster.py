"""DescribeCluster (key 60), versions 0 to 2.

Source: Kafka `KafkaApis.handleDescribeCluster`, KIP-700; KIP-919 (endpoint type, v1): this is the
endpoint of brokers, and controllers have none of their own yet.
"""

from penstock.broker.access import Resource
from penstock.kafka.answers.authorized_operations import operations_for
from penstock.kafka.answers.topic_view import brokers_for_clients, controller_for_clients
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_CLUSTER
VERSIONS = range(3)
BROKERS = 1


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer from the image."""
    image = context.broker.metadata
    if getattr(request.body, "endpoint_type", BROKERS) != BROKERS:
        reply(
            {
                "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "error_message": "This is a broker; ask it for endpoint type 1.",
                "endpoint_type": BROKERS,
                "cluster_id": image.cluster_id,
                "brokers": (),
            }
        )
        return
    reply(
        {
            "error_message": None,
            "endpoint_type": BROKERS,
            "cluster_id": image.cluster_id,
            "controller_id": controller_for_clients(image, context.listener),
            "cluster_authorized_operations": operations_for(
                context, request.body, Resource.CLUSTER
            ),
            "brokers": [one._asdict() for one in brokers_for_clients(image, context.listener)],
        }
    )
