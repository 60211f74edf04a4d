"""From names in calls to topics and partitions, for clients that may do what they ask.

Every look-up of a topic by a method goes through here. Permission comes before existence, as in the
other fronts.

Source: ours; kafka/gate.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access import CLUSTER_NAME, Operation, Resource
from penstock.broker.errors import TopicNotAuthorised
from penstock.controller.errors import UnknownTopic
from penstock.grpc.errors import Refused
from penstock.grpc.statuses import Code

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedTopic
    from penstock.grpc.client import GrpcClient
    from penstock.grpc.proto.messages import Resource as Named

TOPIC_BYTES_MAX: Final = 255


def topic_name(named: Named | None) -> str:
    """Return the name of a topic that a client tells. Raises Refused."""
    if named is None or not named.name or len(named.name.encode()) > TOPIC_BYTES_MAX:
        raise Refused(Code.ILLEGAL_TOPIC, "a request names a topic, of 255 bytes at most")
    if named.resource_namespace:
        raise Refused(Code.ILLEGAL_TOPIC, "namespaces are not supported: leave it empty")
    return named.name


def find_topic(client: GrpcClient, name: str, operation: Operation) -> HostedTopic:
    """Return a topic. Raises TopicNotAuthorised, UnknownTopic."""
    authoriser, audit = client.broker.authoriser, client.broker.audit
    if not authoriser.permits_all and not authoriser.permits(
        client, operation, Resource.TOPIC, name
    ):
        client.broker.denials.note(client, operation, Resource.TOPIC, name)
        raise TopicNotAuthorised
    if audit is not None:
        audit.allowed(client, operation, Resource.TOPIC, name)
    topic = client.broker.partitions.by_name.get(name.encode(errors="replace"))
    if topic is None:
        raise UnknownTopic(name)
    return topic


def may_create(client: GrpcClient, topic: str) -> bool:
    """Whether the client may create a topic: permission on the cluster or on the name suffices."""
    authoriser = client.broker.authoriser
    return authoriser.permits_all or any(
        authoriser.permits(client, Operation.CREATE, resource, name)
        for resource, name in ((Resource.CLUSTER, CLUSTER_NAME), (Resource.TOPIC, topic))
    )
