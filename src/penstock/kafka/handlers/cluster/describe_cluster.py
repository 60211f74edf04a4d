"""DescribeCluster (key 60), versions 0 to 2.

    endpoint type   1 brokers: answered; 2 controllers: MISMATCHED, they have no Kafka endpoint;
                    any other: UNSUPPORTED
    fenced brokers  v2: included on request, and marked

Source: Kafka `AuthHelper.computeDescribeClusterResponse`, KIP-700; KIP-919 (endpoint type, v1),
KIP-1073 (fenced brokers, v2).
"""

from collections.abc import Mapping

from penstock.broker.access import Resource
from penstock.controller.metadata.image import ClusterImage
from penstock.kafka.answers.authorized_operations import operations_for
from penstock.kafka.answers.topic_view import (
    ClientBroker,
    brokers_for_clients,
    controller_for_clients,
    registered_for_clients,
)
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_CLUSTER
VERSIONS = range(3)
BROKERS, CONTROLLERS = 1, 2


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer from the image."""
    image, body = context.broker.metadata, request.body
    endpoint_type = getattr(body, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        reply(_refused(endpoint_type))
        return
    with_fenced = getattr(body, "include_fenced_brokers", False)
    tell = registered_for_clients if with_fenced else brokers_for_clients
    reply(
        {
            "error_message": None,
            "endpoint_type": BROKERS,
            "cluster_id": image.cluster_id,
            "controller_id": controller_for_clients(image, context.listener),
            "cluster_authorized_operations": operations_for(context, body, Resource.CLUSTER),
            "brokers": [_fields(image, one) for one in tell(image, context.listener)],
        }
    )


def _fields(image: ClusterImage, broker: ClientBroker) -> Mapping[str, object]:
    return {**broker._asdict(), "is_fenced": image.brokers[broker.broker_id].is_fenced}


def _refused(endpoint_type: int) -> Mapping[str, object]:
    code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "There is no such endpoint type."
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "This is a broker; ask it for endpoint type 1."
    return {
        "error_code": code,
        "error_message": message,
        "endpoint_type": BROKERS,
        "cluster_id": "",
        "brokers": (),
    }
