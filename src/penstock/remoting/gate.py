"""The only place of this front where names become topics and queues, and permission is checked.

Permission is checked before existence, as in the Kafka front.

Source: ours; kafka/gate.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.access import CLUSTER_NAME, Operation, Resource
from penstock.broker.append.append import partition_of
from penstock.broker.errors import (
    ClusterNotAuthorised,
    GroupNotAuthorised,
    NotAuthorised,
    TopicNotAuthorised,
)
from penstock.controller.errors import UnknownTopic
from penstock.remoting.errors import MalformedBody
from penstock.remoting.later.group_topics import retry_group, stored_name
from penstock.remoting.queues import Queue, set_of

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.remoting.request import RemotingContext

_REFUSALS: Final[dict[Resource, type[NotAuthorised]]] = {
    Resource.TOPIC: TopicNotAuthorised,
    Resource.GROUP: GroupNotAuthorised,
    Resource.CLUSTER: ClusterNotAuthorised,
}


class Found(NamedTuple):
    """A queue that this broker leads."""

    hosted: HostedPartition
    queue: Queue


def check(
    context: RemotingContext, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
) -> None:
    """Raise the NotAuthorised of this resource unless the client may do this."""
    authoriser = context.broker.authoriser
    if authoriser.permits_all or authoriser.permits(context, operation, resource, name):
        if context.broker.audit is not None:
            context.broker.audit.allowed(context, operation, resource, name)
        return
    context.broker.denials.note(context, operation, resource, name)
    raise _REFUSALS[resource](operation.name)


def may_create(context: RemotingContext, topic: str) -> bool:
    """Whether the client may create a topic: permission on the cluster or on the name suffices."""
    authoriser = context.broker.authoriser
    return authoriser.permits_all or any(
        authoriser.permits(context, Operation.CREATE, resource, name)
        for resource, name in ((Resource.CLUSTER, CLUSTER_NAME), (Resource.TOPIC, topic))
    )


def check_create(context: RemotingContext, topic: str) -> None:
    """Raise TopicNotAuthorised unless the client may create a topic."""
    broker = context.broker
    if not may_create(context, topic):
        broker.denials.note(context, Operation.CREATE, Resource.TOPIC, topic)
        raise TopicNotAuthorised(Operation.CREATE.name)
    if broker.audit is not None:
        broker.audit.allowed(context, Operation.CREATE, Resource.TOPIC, topic)


def find_topic(context: RemotingContext, name: str, operation: Operation) -> HostedTopic:
    """Return a topic by the name that clients have for it.

    A retry topic belongs to its group: who may consume with that may read and write it, too.
    Raises TopicNotAuthorised, GroupNotAuthorised, UnknownTopic.
    """
    group, stored = retry_group(name), stored_name(name)
    if group is None:
        check(context, operation, Resource.TOPIC, stored)
    else:
        check(context, Operation.READ, Resource.GROUP, group)
    topic = context.broker.partitions.by_name.get(stored.encode(errors="replace"))
    if topic is None:
        raise UnknownTopic(name)
    return topic


def led_queue(
    context: RemotingContext, topic: HostedTopic, broker_name: str | None, queue_id: int
) -> Found:
    """Return a queue whose master this broker is; a negative id means any.

    Clients before 5.0 do not say which set they mean: that is known only if this broker is master
    of one set of the topic. Raises MalformedBody, UnknownPartition, NotMaster.
    """
    queues = context.front.queues_of(topic.topic_id, tuple(topic.placed))
    set_id = set_of(broker_name) if broker_name else None
    if set_id is None:
        members = context.broker.members
        led = [one for one in queues.counts() if one in members and members[one].is_master]
        if len(led) != 1:
            raise MalformedBody(f"it names no broker, and {len(led)} of this topic are led here")
        set_id = led[0]
    queue = Queue(set_id, max(queue_id, 0))
    partition = queues.partition(queue)
    hosted = partition_of(topic, -1 if partition is None else partition)
    if context.meter is not None:
        context.meter.about(topic.name, hosted.partition)
    hosted.check_still_led()
    return Found(hosted, queue)
