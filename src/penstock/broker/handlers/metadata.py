"""Metadata (key 3), versions 0 to 13: brokers, topics and who leads what, from memory.

    no list (null; before v1 an empty one)   all topics
    names                                    these, created first where that is allowed
    ids (v12+)                               these, or UNKNOWN_TOPIC_ID

A topic that this request created is answered with LEADER_NOT_AVAILABLE, as Kafka does: clients ask
again, and find it. Names are checked even when nothing is created.

Source: Kafka `KafkaApis.handleTopicMetadataRequest`, `AutoTopicCreationManager`; KIP-4, KIP-516
(ids), KIP-526 (one topic of many), quirk 9 of our notes. Authorized operations are not computed:
there is no authorization yet, and the default says "not asked".
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.ids import TopicId
from penstock.broker.admin_answers import submit, topic_id_of
from penstock.broker.broker import Broker
from penstock.broker.request import Request
from penstock.broker.topic_view import Fields, TopicViews, broker_fields, missing_topic
from penstock.controller.commands import CreateTopics, NewTopic
from penstock.controller.errors import (
    InvalidTopicName,
    MetadataError,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.controller.topic_names import INTERNAL_TOPICS, check_topic_name
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.METADATA
VERSIONS = range(14)

AUTO_CREATE_MAX = 100
"""Topics that one request may create; the others it gets when it asks again."""


async def handle(broker: Broker, request: Request) -> Mapping[str, object]:
    """Answer from the image; only creation waits."""
    body = request.body
    wanted: tuple[Any, ...] | None = body.topics
    if wanted is None or (request.api_version == 0 and not wanted):
        topics = _all_topics(broker)
    else:
        names = list(dict.fromkeys(one.name or "" for one in wanted if _id_of(one) is None))
        created: Mapping[str, MetadataError | None] = {}
        if broker.config.auto_create_topics and getattr(body, "allow_auto_topic_creation", True):
            created = await _create_missing(broker, names)
        ids = dict.fromkeys(topic_id for one in wanted if (topic_id := _id_of(one)) is not None)
        topics = _named_topics(broker, names, created) + _topics_by_id(broker, list(ids))
    image = broker.metadata
    return {
        "brokers": [broker_fields(one) for _, one in sorted(image.brokers.items())],
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id,
        "topics": topics,
    }


def _id_of(wanted: Any) -> TopicId | None:
    return topic_id_of(getattr(wanted, "topic_id", None)) if wanted.name is None else None


def _all_topics(broker: Broker) -> list[Fields]:
    views = TopicViews(broker.metadata)
    return [views.topic(topic, topic.partitions) for topic in broker.metadata.topics_by_id.values()]


def _named_topics(
    broker: Broker, names: list[str], created: Mapping[str, MetadataError | None]
) -> list[Fields]:
    views = TopicViews(broker.metadata)
    found: list[Fields] = []
    for name in names:
        topic = broker.metadata.topics_by_name.get(name)
        if name in created:
            found.append(_just_created(name, created[name]))
        elif topic is not None:
            found.append(views.topic(topic, topic.partitions))
        else:
            found.append(missing_topic(_why_missing(name), name=name))
    return found


def _why_missing(name: str) -> MetadataError:
    try:
        check_topic_name(name)
    except InvalidTopicName as error:
        return error
    return UnknownTopic(name)


def _just_created(name: str, error: MetadataError | None) -> Fields:
    if isinstance(error, InvalidTopicName):
        return missing_topic(error, name=name)
    # Created, or refused for a reason that may pass: the client is to ask again.
    return missing_topic(ErrorCode.LEADER_NOT_AVAILABLE, name=name)


def _topics_by_id(broker: Broker, ids: list[TopicId]) -> list[Fields]:
    views = TopicViews(broker.metadata)
    found: list[Fields] = []
    for topic_id in ids:
        topic = broker.metadata.topics_by_id.get(topic_id)
        if topic is None:
            found.append(missing_topic(UnknownTopicId(topic_id), topic_id=topic_id))
        else:
            found.append(views.topic(topic, topic.partitions))
    return found


async def _create_missing(broker: Broker, names: list[str]) -> dict[str, MetadataError | None]:
    """Create what is missing and may be; returns what became of each."""
    known = broker.metadata.topics_by_name
    missing = [
        name
        for name in names
        if name not in known
        and name not in INTERNAL_TOPICS
        and isinstance(_why_missing(name), UnknownTopic)
    ][:AUTO_CREATE_MAX]
    if not missing:
        return {}
    command = CreateTopics(topics=tuple(NewTopic(name=name) for name in missing))
    outcomes = await submit(broker, command)
    if isinstance(outcomes, MetadataError):
        return dict.fromkeys(missing, outcomes)
    return {one.name: one.error for one in outcomes if not isinstance(one.error, TopicExists)}
