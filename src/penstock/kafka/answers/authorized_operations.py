"""The operations that a client may do with a resource, if its request asks for them.

Source: KIP-430.
"""

from typing import Any, Final

from penstock.broker.access import CLUSTER_NAME, Resource
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import operations_on

NOT_ASKED_FOR: Final = -(2**31)
"""Kafka's value for operations that were not requested."""
_FLAGS: Final = {
    Resource.TOPIC: "include_topic_authorized_operations",
    Resource.GROUP: "include_authorized_operations",
    Resource.CLUSTER: "include_cluster_authorized_operations",
}


def operations_for(
    context: RequestContext, body: Any, resource: Resource, name: str = CLUSTER_NAME
) -> int:
    """Return the operations as bits, or the value for not requested."""
    if not getattr(body, _FLAGS[resource], False):
        return NOT_ASKED_FOR
    return operations_on(context, resource, name)
