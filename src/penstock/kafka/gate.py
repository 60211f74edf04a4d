"""The only place where names become topics and groups, and where permission is checked.

    name or id of a topic ─► permitted? ─► TopicImage, HostedTopic, HostedPartition
    group id              ─► permitted? ─► answered by this coordinator? ─► error code
    the cluster           ─► permitted?

No other module of this room accesses the tables of topics (tools/tidy.py, rule `gate`), so that no
handler can omit the check by mistake. Permission is checked before existence: a client that may not
see a topic gets the same answer whether it exists or not. A topic id is not secret, but a name is:
a request by id first gets UNKNOWN_TOPIC_ID for an unknown id, and never the name of a topic that
the client may not see.

What is refused is counted (`broker/denials.py`); what is left out of a list is not.

While everything is permitted, a request reads one attribute, whatever it names: Produce and Fetch
get the broker's own tables.

Source: Kafka `KafkaApis`, `ControllerApis` and `AuthHelper`; KIP-430 (operations), KIP-679 (who may
have a producer id), KIP-373 (tokens for others).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch, TopicId
from penstock.broker.access import (
    ANONYMOUS,
    CLUSTER_NAME,
    OPERATIONS_ON,
    Operation,
    PermitsAll,
    Resource,
)
from penstock.broker.coordinators.lease import knows_group
from penstock.broker.errors import (
    ClusterNotAuthorised,
    GroupNotAuthorised,
    NoAuthoriser,
    NotAuthorised,
    TokenNotAuthorised,
    TokenRequestRefused,
    TokensDisabled,
    TopicNotAuthorised,
    TransactionNotAuthorised,
)
from penstock.controller.errors import UnknownTopic, UnknownTopicId
from penstock.controller.metadata.records import ResourceType
from penstock.kafka.context import WritableTopics
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.access.delegation import TokenSecrets
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.broker.turns import Pace
    from penstock.controller.metadata.image import TopicImage
    from penstock.kafka.context import RequestContext

Item = TypeVar("Item")

_REFUSALS: Final[dict[Resource, type[NotAuthorised]]] = {
    Resource.TOPIC: TopicNotAuthorised,
    Resource.GROUP: GroupNotAuthorised,
    Resource.CLUSTER: ClusterNotAuthorised,
    Resource.TRANSACTIONAL_ID: TransactionNotAuthorised,
    Resource.DELEGATION_TOKEN: TokenNotAuthorised,
    Resource.USER: TokenNotAuthorised,
}
WRITABLE_MAX: Final = 64
"""Topics that are remembered of a connection; a client that writes to more is asked for those."""
_ALL_BITS: Final = {
    resource: sum(1 << operation for operation in operations)
    for resource, operations in OPERATIONS_ON.items()
}


# --- Permission ----------------------------------------------------------------------------------


def may_all(context: RequestContext) -> bool:
    """Whether everything is permitted, so that no check is needed."""
    return context.broker.authoriser.permits_all


def may(
    context: RequestContext, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
) -> bool:
    """Whether the client may do this, for answers that leave out what it may not: a denial is not
    counted.
    """
    authoriser = context.broker.authoriser
    return authoriser.permits_all or authoriser.permits(context, operation, resource, name)


def refusal(
    context: RequestContext, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
) -> NotAuthorised | None:
    """Return why the client may not do this; None if it may."""
    if not may(context, operation, resource, name):
        return _denied(context, operation, resource, name)
    _note_used(context, operation, resource, name)
    return None


def check(
    context: RequestContext, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
) -> None:
    """Raise the NotAuthorised of this resource unless the client may do this."""
    if not may(context, operation, resource, name):
        raise _denied(context, operation, resource, name)
    _note_used(context, operation, resource, name)


def _note_used(
    context: RequestContext, operation: Operation, resource: Resource, name: str
) -> None:
    """Tell the audit, if there is one, which permission the client needed and has."""
    audit = context.broker.audit
    if audit is not None:
        audit.allowed(context, operation, resource, name)


def _denied(
    context: RequestContext, operation: Operation, resource: Resource, name: str
) -> NotAuthorised:
    context.broker.denials.note(context, operation, resource, name)
    return _REFUSALS[resource](operation.name)


def creation_refusal(context: RequestContext, topic_name: str) -> NotAuthorised | None:
    """Return why the client may not create this topic; None if it may.

    Permission on the cluster or on the name suffices; the audit is told of the narrower one.
    """
    if may(context, Operation.CREATE, Resource.CLUSTER):
        _note_used(context, Operation.CREATE, Resource.TOPIC, topic_name)
        return None
    return refusal(context, Operation.CREATE, Resource.TOPIC, topic_name)


def marker_refusal(context: RequestContext) -> NotAuthorised | None:
    """Return why the client may not write markers of transactions: tools need ALTER, brokers of
    Kafka CLUSTER_ACTION.
    """
    if may(context, Operation.ALTER, Resource.CLUSTER):
        _note_used(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        return None
    return refusal(context, Operation.CLUSTER_ACTION, Resource.CLUSTER)


def acl_refusal(context: RequestContext, operation: Operation) -> PlatformError | None:
    """Return why the client may not see or change rules; NoAuthoriser where there are none."""
    refused = refusal(context, operation, Resource.CLUSTER)
    if refused is None and isinstance(context.broker.authoriser, PermitsAll):
        return NoAuthoriser()
    return refused


def token_secrets(context: RequestContext) -> TokenSecrets:
    """Return what delegation tokens are made by, for a client that may ask for them.

    Raises TokenRequestRefused for one that nobody knows, and for one that is known by a token: who
    has a token could else live for ever. Raises TokensDisabled.
    """
    if context.is_by_token or context.principal == ANONYMOUS:
        raise TokenRequestRefused
    secrets = context.front.token_secrets()
    if secrets is None:
        raise TokensDisabled
    return secrets


def may_see_token(context: RequestContext, token_id: str, owner: str) -> bool:
    """Whether the client may see a token that is not its own."""
    if may(context, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token_id):
        return True
    return may(context, Operation.DESCRIBE_TOKENS, Resource.USER, owner)


def check_idempotent(context: RequestContext) -> None:
    """Raise ClusterNotAuthorised unless the client may have a producer id.

    Permission to write to any topic suffices (KIP-679).
    """
    if may(context, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER):
        return
    if not context.broker.authoriser.permits_some(context, Operation.WRITE, Resource.TOPIC):
        raise _denied(context, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME)


def config_refusal(
    context: RequestContext, operation: Operation, resource_type: int, name: str
) -> NotAuthorised | None:
    """Return why the client may not do this with a resource's configuration; None if it may.

    Brokers, and resource types without configuration here, need permission on the cluster.
    """
    match resource_type:
        case ResourceType.TOPIC:
            return refusal(context, operation, Resource.TOPIC, name)
        case ResourceType.GROUP:
            return refusal(context, operation, Resource.GROUP, name)
        case _:
            return refusal(context, operation, Resource.CLUSTER)


def sight(context: RequestContext) -> Callable[[str], bool] | None:
    """Return which topics the client may see, to be asked later too; None while all are."""
    if may_all(context):
        return None
    return partial(may, context, Operation.DESCRIBE, Resource.TOPIC)


def operations_on(context: RequestContext, resource: Resource, name: str = CLUSTER_NAME) -> int:
    """Return the operations permitted on a resource, as bits by the numbers of operations.

    Without permission to describe the cluster, nothing is returned for it.
    """
    if may_all(context):
        return _ALL_BITS[resource]
    if resource is Resource.CLUSTER and not may(context, Operation.DESCRIBE, resource):
        return 0
    permits = context.broker.authoriser.permits
    return sum(
        1 << operation
        for operation in OPERATIONS_ON[resource]
        if permits(context, operation, resource, name)
    )


def parted(
    context: RequestContext, items: Iterable[Item], refusal: Callable[[Item], PlatformError | None]
) -> tuple[list[Item], list[tuple[Item, PlatformError]]]:
    """Return the permitted items of a request, and the others with the reason."""
    if may_all(context) and context.broker.audit is None:
        return list(items), []
    permitted: list[Item] = []
    refused: list[tuple[Item, PlatformError]] = []
    for item in items:
        error = refusal(item)
        if error is None:
            permitted.append(item)
        else:
            refused.append((item, error))
    return permitted, refused


# --- Topics --------------------------------------------------------------------------------------


def topic(context: RequestContext, name: str, operation: Operation) -> TopicImage:
    """Return the topic of this name. Raises TopicNotAuthorised, UnknownTopic."""
    check(context, operation, Resource.TOPIC, name)
    found = context.broker.metadata.topics_by_name.get(name)
    if found is None:
        raise UnknownTopic(name)
    return found


def topic_with_id(
    context: RequestContext, topic_id: bytes | None, operation: Operation
) -> TopicImage:
    """Return the topic with this id. Raises UnknownTopicId, TopicNotAuthorised."""
    wanted = TopicId(topic_id or bytes(16))
    found = context.broker.metadata.topics_by_id.get(wanted)
    if found is None:
        raise UnknownTopicId(wanted)
    check(context, operation, Resource.TOPIC, found.name)
    return found


def topic_of(context: RequestContext, asked: Any, operation: Operation) -> TopicImage:
    """Return the topic that an entity of a request names, by id in the versions that have ids.

    Raises TopicNotAuthorised, UnknownTopic, UnknownTopicId.
    """
    if hasattr(asked, "topic_id"):
        topic_id = asked.topic_id
        return topic_with_id(context, None if topic_id is None else topic_id.bytes, operation)
    return topic(context, asked.name, operation)


async def every_topic(
    context: RequestContext, operation: Operation, pace: Pace
) -> list[TopicImage]:
    """Return all topics on which the operation is permitted; the others are left out."""
    images = list(context.broker.metadata.topics_by_id.values())
    if may_all(context):
        return images
    seen: list[TopicImage] = []
    for image in images:
        await pace.step()
        if may(context, operation, Resource.TOPIC, image.name):
            seen.append(image)
    return seen


def find_topic(
    broker: Broker, name: str | None, topic_id: TopicId | None = None
) -> TopicImage | None:
    """Look up a topic, by id unless it has a name, without a permission check.

    For the broker's own topics, for requests that are permitted whatever the topic holds, and for
    what work on a topic costs.
    """
    if name is None:
        return None if topic_id is None else broker.metadata.topics_by_id.get(topic_id)
    return broker.metadata.topics_by_name.get(name)


def hosted_topic_of_id(broker: Broker, topic_id: bytes) -> HostedTopic | None:
    """Look up a topic's partitions here: for brokers of the cluster, which may do everything."""
    return broker.partitions.by_id.get(topic_id)


def all_topics(broker: Broker) -> list[TopicImage]:
    """Return all topics by name: for requests permitted on the cluster."""
    return [image for _, image in sorted(broker.metadata.topics_by_name.items())]


def find_hosted_topic(broker: Broker, name: str) -> HostedTopic | None:
    """Look up a topic's partitions here: for requests permitted on the cluster."""
    return broker.partitions.by_name.get(name.encode(errors="replace"))


def all_hosted_topics(broker: Broker) -> list[HostedTopic]:
    """Return all topics with their partitions here: for requests permitted on the cluster."""
    return list(broker.partitions.by_name.values())


class HostedTopics(Protocol):
    """Topics with their partitions here, by name or id as encoded in a request."""

    def get(self, key: bytes, /) -> HostedTopic | None:
        """Raises TopicNotAuthorised."""


class _PermittedTopics:
    """See `HostedTopics`; raises for topics that are not permitted, existing or not."""

    __slots__ = ("_by_id", "_context", "_is_noted", "_operation")

    def __init__(
        self, context: RequestContext, operation: Operation, *, by_id: bool, is_noted: bool
    ) -> None:
        self._context = context
        self._operation = operation
        self._by_id = by_id
        self._is_noted = is_noted

    def get(self, key: bytes, /) -> HostedTopic | None:
        found = topics_by_key(self._context.broker, self._by_id).get(key)
        if found is None and self._by_id:
            return None
        name = key.decode(errors="replace") if found is None else found.name
        if not may(self._context, self._operation, Resource.TOPIC, name):
            raise _denied(self._context, self._operation, Resource.TOPIC, name)
        if self._is_noted:
            _note_used(self._context, self._operation, Resource.TOPIC, name)
        return found


def hosted_topics(
    context: RequestContext, operation: Operation, *, by_id: bool, is_noted: bool = False
) -> HostedTopics:
    """Return the topics on which the operation is permitted.

    `is_noted`: the audit is told of each, as no row of a partition says that it was used.
    """
    broker = context.broker
    is_noted = is_noted and broker.audit is not None
    if broker.authoriser.permits_all and not is_noted:
        return broker.partitions.by_id if by_id else broker.partitions.by_name
    return _PermittedTopics(context, operation, by_id=by_id, is_noted=is_noted)


def topic_to_write(context: RequestContext, key: bytes, *, by_id: bool) -> HostedTopic | None:
    """Return the topic of a batch. Raises TopicNotAuthorised.

    Most batches are of a topic that the connection has written to before: the authoriser, which
    costs a tenth of a request of one record, is asked again once something has changed.
    """
    broker = context.broker
    authoriser, topics = broker.authoriser, topics_by_key(broker, by_id)
    if authoriser.permits_all:
        return topics.get(key)
    known = context.writable
    if (
        known is None
        or known.authoriser is not authoriser
        or known.generation != authoriser.generation
        or known.principal != context.principal
    ):
        known = context.writable = WritableTopics(authoriser, context.principal)
    keys = known.ids if by_id else known.names
    if key in keys:
        return topics.get(key)
    asks = _PermittedTopics(context, Operation.WRITE, by_id=by_id, is_noted=False)
    found = asks.get(key)
    if found is not None and len(keys) < WRITABLE_MAX:
        keys.add(key)
    return found


def topics_by_key(broker: Broker, by_id: bool) -> dict[bytes, HostedTopic]:
    """Return all topics: for a request in progress that was permitted before."""
    return broker.partitions.by_id if by_id else broker.partitions.by_name


def led_partition(
    context: RequestContext,
    name: str,
    partition: int,
    operation: Operation,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> HostedPartition:
    """Return a partition that this broker leads; `leader_epoch` is the client's.

    Raises TopicNotAuthorised, and what `PartitionRegistry.led` raises.
    """
    check(context, operation, Resource.TOPIC, name)
    return context.broker.partitions.led(name, partition, leader_epoch)


# --- Groups --------------------------------------------------------------------------------------


def group_error(context: RequestContext, group_id: str, operation: Operation) -> ErrorCode:
    """Return why the client may not do this with a group; NONE if it may."""
    if refusal(context, operation, Resource.GROUP, group_id) is None:
        return ErrorCode.NONE
    return ErrorCode.GROUP_AUTHORIZATION_FAILED


def told_group_error(context: RequestContext, group_id: str, operation: Operation) -> ErrorCode:
    """As `group_error`, for answers from memory: NOT_COORDINATOR if another one may be active."""
    error = group_error(context, group_id, operation)
    return error or group_error_of_broker(context.broker, group_id)


def group_error_of_broker(broker: Broker, group_id: str) -> ErrorCode:
    """As `told_group_error`, for another broker, which may ask everything."""
    return ErrorCode.NONE if knows_group(broker, group_id) else ErrorCode.NOT_COORDINATOR
