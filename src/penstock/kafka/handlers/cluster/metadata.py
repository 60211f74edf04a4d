"""Metadata (key 3), versions 0 to 13: brokers, topics and who leads what, from memory.

    no list (null; before v1 an empty one)   all topics
    names                                    these, created first where that is allowed
    ids (v12+)                               these, or UNKNOWN_TOPIC_ID

A topic that this request created is answered with LEADER_NOT_AVAILABLE, as Kafka does: clients ask
again, and find it. Names are checked even when nothing is created.

Source: Kafka `KafkaApis.handleTopicMetadataRequest`, `AutoTopicCreationManager`; KIP-4, KIP-516
(ids), KIP-526 (one topic of many), KIP-430 (operations), quirk 9 of our notes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base.ids import TopicId
from penstock.broker.broker import Broker
from penstock.broker.topics_on_demand import TopicsOnDemand
from penstock.broker.turns import Pace
from penstock.controller.commands.command import NewTopic
from penstock.controller.commands.topic_names import INTERNAL_TOPICS, check_topic_name
from penstock.controller.errors import (
    InvalidTopicName,
    MetadataError,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.controller.metadata.image import ClusterImage, TopicImage
from penstock.kafka.answers.admin import topic_id_of
from penstock.kafka.answers.authorized_operations import NOT_ASKED_FOR, ON_CLUSTER, ON_TOPIC
from penstock.kafka.answers.topic_view import (
    brokers_for_clients,
    controller_for_clients,
    partition_states,
)
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
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

PARTITIONS_OF_A_STEP = 10
"""A partition costs so much less than a topic's name."""

AUTO_CREATE_MAX = 100
"""Topics that one request may create; the others it gets when it asks again."""


async def handle(context: RequestContext, request: Request) -> bytes:
    """Answer from the image; only creation waits, and who asks for much takes turns with others."""
    wanted: tuple[Any, ...] | None = request.body.topics
    pace = Pace(request.turns)
    if wanted is None or (request.api_version == 0 and not wanted):
        found: list[TopicImage | TopicMetadata] = list(
            context.broker.metadata.topics_by_id.values()
        )
    else:
        found = await _wanted_topics(context, request.body, wanted, pace)
    image = context.broker.metadata
    states = partition_states(image, context.broker.is_suspect, context.listener)
    on_topic, on_cluster = _operations(request.body)
    encoding = MetadataEncoding(request.api_version, _cluster(image, on_cluster, context.listener))
    found.reverse()
    while found:  # what an answer is made of is let go one by one, and not in a turn of its end
        one = found.pop()
        await pace.step()
        if isinstance(one, TopicMetadata):
            encoding.add(one)
            continue
        await pace.step(len(one.partitions) // PARTITIONS_OF_A_STEP)
        encoding.add(_topic(one, states, on_topic))
    return encoding.finish()


def _topic(
    topic: TopicImage, states: Mapping[int, PartitionState], operations: int
) -> TopicMetadata:
    """A set that has come since the states were looked at has no leader for this answer."""
    return TopicMetadata(
        topic.name,
        topic.topic_id,
        [(one, states[set_id]) for one, set_id in topic.partitions if set_id in states],
        is_internal=topic.internal,
        operations=operations,
    )


def _operations(body: Any) -> tuple[int, int]:
    """Return what may be done with topics and with the cluster, where the client asks."""
    is_topic = getattr(body, "include_topic_authorized_operations", False)
    is_cluster = getattr(body, "include_cluster_authorized_operations", False)
    return ON_TOPIC if is_topic else NOT_ASKED_FOR, ON_CLUSTER if is_cluster else NOT_ASKED_FOR


def _cluster(image: ClusterImage, operations: int, listener: str) -> ClusterMetadata:
    brokers = [BrokerMetadata(*one) for one in brokers_for_clients(image, listener)]
    return ClusterMetadata(
        brokers, image.cluster_id, controller_for_clients(image, listener), operations=operations
    )


async def _wanted_topics(
    context: RequestContext, body: Any, wanted: tuple[Any, ...], pace: Pace
) -> list[TopicImage | TopicMetadata]:
    """Return the topics asked for, each once: those by name, then those by id."""
    names: dict[str, None] = {}
    ids: dict[TopicId, None] = {}
    for one in wanted:
        await pace.step()
        topic_id = _id_of(one)
        if topic_id is None:
            names[one.name or ""] = None
        else:
            ids[topic_id] = None
    broker = context.broker
    created: Mapping[str, MetadataError | None] = {}
    if broker.config.auto_create_topics and getattr(body, "allow_auto_topic_creation", True):
        created = await _create_missing(broker, context.front.on_demand, names, pace)
    image = broker.metadata
    found: list[TopicImage | TopicMetadata] = []
    for name in names:
        await pace.step()
        if name in created:
            found.append(_just_created(name, created[name]))
        else:
            found.append(image.topics_by_name.get(name) or _missing(_why_missing(name), name))
    for topic_id in ids:
        await pace.step()
        topic = image.topics_by_id.get(topic_id)
        found.append(topic or _missing(UnknownTopicId(topic_id), None, topic_id))
    return found


def _id_of(wanted: Any) -> TopicId | None:
    return topic_id_of(getattr(wanted, "topic_id", None)) if wanted.name is None else None


def _missing(error: MetadataError, name: str | None, topic_id: bytes = bytes(16)) -> TopicMetadata:
    return TopicMetadata(name, topic_id, error_code=error_code_of(error))


def _why_missing(name: str) -> MetadataError:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        return error
    return UnknownTopic(name)


def _just_created(name: str, error: MetadataError | None) -> TopicMetadata:
    if isinstance(error, InvalidTopicName):
        return _missing(error, name)
    # Created, or refused for a reason that may pass: the client is to ask again.
    return TopicMetadata(name, error_code=ErrorCode.LEADER_NOT_AVAILABLE)


async def _create_missing(
    broker: Broker, on_demand: TopicsOnDemand, names: Iterable[str], pace: Pace
) -> dict[str, MetadataError | None]:
    """Create what is missing and may be; returns what became of each."""
    known = broker.metadata.topics_by_name
    missing: list[str] = []
    for name in names:
        await pace.step()
        if len(missing) >= AUTO_CREATE_MAX:
            break
        is_free = name not in known and name not in INTERNAL_TOPICS
        if is_free and isinstance(_why_missing(name), UnknownTopic):
            missing.append(name)
    if not missing:
        return {}
    outcomes = await on_demand.create(NewTopic(name=name) for name in missing)
    return {name: error for name, error in outcomes.items() if not isinstance(error, TopicExists)}
