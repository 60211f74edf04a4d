"""From names in calls to topics and partitions, for clients that may do what they ask.

Every look-up of a topic by a method goes through here. Permission comes before existence, as in the
other fronts.

Source: ours; kafka/gate.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access import CLUSTER_NAME, Operation, Resource
from penstock.broker.coordinators.share_policies import share_group
from penstock.broker.errors import (
    GroupNotAuthorised,
    InternalTopicRefused,
    NotAuthorised,
    TopicNotAuthorised,
)
from penstock.controller.errors import UnknownTopic
from penstock.grpc.errors import Refused
from penstock.grpc.statuses import Code

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedTopic
    from penstock.grpc.client import GrpcClient
    from penstock.grpc.proto.messages import Resource as Named

TOPIC_BYTES_MAX: Final = 255
_REFUSALS: Final[dict[Resource, type[NotAuthorised]]] = {
    Resource.TOPIC: TopicNotAuthorised,
    Resource.GROUP: GroupNotAuthorised,
}


def topic_name(named: Named | None) -> str:
    """Return the name of a topic that a client tells. Raises Refused."""
    if named is None or not named.name or len(named.name.encode()) > TOPIC_BYTES_MAX:
        raise Refused(Code.ILLEGAL_TOPIC, "a request names a topic, of 255 bytes at most")
    if named.resource_namespace:
        raise Refused(Code.ILLEGAL_TOPIC, "namespaces are not supported: leave it empty")
    return named.name


def group_name(client: GrpcClient, named: Named | None) -> str:
    """Return the name of a consumer group that a client tells. Raises Refused."""
    most = client.broker.groups.config.group_id_bytes_max
    if named is None or not named.name or len(share_group(named.name).encode()) > most:
        told = f"a request names a consumer group, of {most - len(share_group(''))} bytes at most"
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, told)
    if named.resource_namespace:
        told = "namespaces are not supported: leave it empty"
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, told)
    return named.name


def find_topic(client: GrpcClient, name: str, operation: Operation) -> HostedTopic:
    """Return a topic. Raises TopicNotAuthorised, UnknownTopic."""
    _check(client, operation, Resource.TOPIC, name)
    topic = client.broker.partitions.by_name.get(name.encode(errors="replace"))
    if topic is None:
        raise UnknownTopic(name)
    return topic


def check_group(client: GrpcClient, group: str) -> None:
    """Check that the client may consume with a group. Raises GroupNotAuthorised."""
    _check(client, Operation.READ, Resource.GROUP, group)


def popped_topic(client: GrpcClient, group: str, name: str) -> HostedTopic:
    """Return a topic that a group consumes, if the client may.

    Raises TopicNotAuthorised, GroupNotAuthorised, UnknownTopic, InternalTopicRefused.
    """
    check_group(client, group)
    topic = find_topic(client, name, Operation.READ)
    if topic.internal:
        raise InternalTopicRefused
    return topic


def _check(client: GrpcClient, operation: Operation, resource: Resource, name: str) -> None:
    authoriser, audit = client.broker.authoriser, client.broker.audit
    if not authoriser.permits_all and not authoriser.permits(client, operation, resource, name):
        client.broker.denials.note(client, operation, resource, name)
        raise _REFUSALS[resource](operation.name)
    if audit is not None:
        audit.allowed(client, operation, resource, name)


def may_create(client: GrpcClient, topic: str) -> bool:
    """Whether the client may create a topic: permission on the cluster or on the name suffices."""
    authoriser = client.broker.authoriser
    return authoriser.permits_all or any(
        authoriser.permits(client, Operation.CREATE, resource, name)
        for resource, name in ((Resource.CLUSTER, CLUSTER_NAME), (Resource.TOPIC, topic))
    )
