"""Metadata (key 3), versions 0 to 13: brokers, topics and their leaders, from memory.

    no list (null; before v1 an empty one)   all topics
    names                                    these, created first if that is allowed
    ids (v12+)                               these, or UNKNOWN_TOPIC_ID

A topic that the client may not describe is left out of the list of all topics; requested by name or
id it is TOPIC_AUTHORIZATION_FAILED, whether it exists or not. Creation needs permission to create.

A topic that this request has created is answered with LEADER_NOT_AVAILABLE, as in Kafka, so that
clients retry; so is one that the client's quota of mutations does not permit yet. Names are
validated even if nothing is created.

Source: Kafka `KafkaApis.handleTopicMetadataRequest`, `AutoTopicCreationManager`; KIP-4, KIP-516
(ids), KIP-526 (one topic of many), KIP-430 (operations).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import TopicNotAuthorised
from penstock.broker.turns import Pace
from penstock.controller.commands.command import NewTopic
from penstock.controller.commands.topic_names import INTERNAL_TOPICS, check_topic_name
from penstock.controller.errors import (
    InvalidTopicName,
    TopicExists,
    UnknownTopic,
)
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.kafka.answers.admin import topic_id_of
from penstock.kafka.answers.authorized_operations import operations_for
from penstock.kafka.answers.topic_view import (
    brokers_for_clients,
    controller_for_clients,
    partition_states,
)
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import creation_refusal, every_topic, find_topic, may, topic, topic_with_id
from penstock.kafka.mutations import owe, within_quota
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.metadata import (
    BrokerMetadata,
    ClusterMetadata,
    MetadataEncoding,
    PartitionState,
    TopicMetadata,
)

KEY = ApiKey.METADATA
VERSIONS = range(14)

_DESCRIBE = Operation.DESCRIBE
PARTITIONS_OF_A_STEP = 10
"""Cost of a partition relative to that of a topic's name, for slices."""

AUTO_CREATE_MAX = 100
"""Most topics that one request creates; the client gets the others when it retries."""


async def handle(context: RequestContext, request: Request) -> bytes:
    """Answer from the image; only creation waits, and long requests take turns."""
    wanted: tuple[Any, ...] | None = request.body.topics
    pace = Pace(request.turns)
    if wanted is None or (request.api_version == 0 and not wanted):
        found: list[TopicImage | TopicMetadata] = [*await every_topic(context, _DESCRIBE, pace)]
    else:
        found = await _wanted_topics(context, request.body, wanted, pace)
    image = context.broker.metadata
    states = partition_states(image, context.broker.is_suspect, context.listener)
    on_cluster = operations_for(context, request.body, Resource.CLUSTER)
    encoding = MetadataEncoding(request.api_version, _cluster(context, image, on_cluster))
    found.reverse()
    while found:  # free the objects one by one rather than all at once at the end
        one = found.pop()
        await pace.step()
        if isinstance(one, TopicMetadata):
            encoding.add(one)
            continue
        await pace.step(len(one.partitions) // PARTITIONS_OF_A_STEP)
        operations = operations_for(context, request.body, Resource.TOPIC, one.name)
        encoding.add(_topic(one, states, operations))
    return encoding.finish()


def _topic(
    image: TopicImage, states: Mapping[int, PartitionState], operations: int
) -> TopicMetadata:
    """Return a topic; a set created after `states` has no leader in this answer."""
    numbered = enumerate(image.partitions.set_ids)
    return TopicMetadata(
        image.name,
        image.topic_id,
        [(one, states[set_id]) for one, set_id in numbered if set_id in states],
        is_internal=image.internal,
        operations=operations,
    )


def _cluster(context: RequestContext, image: ClusterImage, operations: int) -> ClusterMetadata:
    listener, is_told = context.listener, context.broker.lately_fenced.has
    found = brokers_for_clients(image, listener, is_told)
    controller_id = controller_for_clients(image, listener)
    brokers = [BrokerMetadata(*broker) for broker in found]
    return ClusterMetadata(brokers, image.cluster_id, controller_id, operations=operations)


async def _wanted_topics(
    context: RequestContext, body: Any, wanted: tuple[Any, ...], pace: Pace
) -> list[TopicImage | TopicMetadata]:
    """Return the requested topics without duplicates: those by name, then those by id."""
    names: dict[str, None] = {}
    ids: dict[TopicId, None] = {}
    for one in wanted:
        await pace.step()
        topic_id = _id_of(one)
        if topic_id is None:
            names[one.name or ""] = None
        else:
            ids[topic_id] = None
    created: Mapping[str, PlatformError | None] = {}
    is_allowed = getattr(body, "allow_auto_topic_creation", True)
    if context.broker.config.auto_create_topics and is_allowed:
        created = await _create_missing(context, names, pace)
    found: list[TopicImage | TopicMetadata] = []
    for name in names:
        await pace.step()
        if name in created:
            found.append(_just_created(name, created[name]))
        else:
            found.append(_named(context, name))
    for topic_id in ids:
        await pace.step()
        found.append(_with_id(context, topic_id))
    return found


def _named(context: RequestContext, name: str) -> TopicImage | TopicMetadata:
    try:
        return topic(context, name, _DESCRIBE)
    except UnknownTopic:
        return _missing(_why_missing(name), name)
    except TopicNotAuthorised as error:
        return _missing(error, name)


def _with_id(context: RequestContext, topic_id: TopicId) -> TopicImage | TopicMetadata:
    try:
        return topic_with_id(context, topic_id, _DESCRIBE)
    except PlatformError as error:
        return _missing(error, None, topic_id)


def _id_of(wanted: Any) -> TopicId | None:
    return topic_id_of(getattr(wanted, "topic_id", None)) if wanted.name is None else None


def _missing(error: PlatformError, name: str | None, topic_id: bytes = bytes(16)) -> TopicMetadata:
    return TopicMetadata(name, topic_id, error_code=error_code_of(error))


def _why_missing(name: str) -> PlatformError:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        return error
    return UnknownTopic(name)


def _just_created(name: str, error: PlatformError | None) -> TopicMetadata:
    if isinstance(error, InvalidTopicName | TopicNotAuthorised):
        return _missing(error, name)
    # Created, or refused for a temporary reason: the client is to retry.
    return TopicMetadata(name, error_code=ErrorCode.LEADER_NOT_AVAILABLE)


async def _create_missing(
    context: RequestContext, names: Iterable[str], pace: Pace
) -> dict[str, PlatformError | None]:
    """Create missing topics if that is allowed and permitted; return the outcome of each."""
    missing: list[str] = []
    refused: dict[str, PlatformError | None] = {}
    for name in names:
        await pace.step()
        if len(missing) >= AUTO_CREATE_MAX:
            break
        if not _is_wanted(context, name):
            continue
        barred = creation_refusal(context, name)
        if barred is None:
            missing.append(name)
        else:
            refused[name] = barred
    over: list[tuple[str, PlatformError]] = []
    missing = within_quota(context, missing, over, lambda _: 1, is_strict=True)
    refused |= over
    if not missing:
        return refused
    outcomes = await context.front.on_demand.create(NewTopic(name=name) for name in missing)
    owe(context, sum(map(partial(_uncounted, context), missing)))
    made = {name: error for name, error in outcomes.items() if not isinstance(error, TopicExists)}
    return {**made, **refused}


def _uncounted(context: RequestContext, name: str) -> int:
    """Return the partitions of a topic that was just created beside the one that was counted."""
    made = find_topic(context.broker, name)
    return 0 if made is None else len(made.partitions) - 1


def _is_wanted(context: RequestContext, name: str) -> bool:
    """Whether this is a valid name without a topic, and the client may know that."""
    is_free = find_topic(context.broker, name) is None and name not in INTERNAL_TOPICS
    is_seen = is_free and may(context, _DESCRIBE, Resource.TOPIC, name)
    return is_seen and isinstance(_why_missing(name), UnknownTopic)
