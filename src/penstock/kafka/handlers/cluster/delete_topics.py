"""DeleteTopics (key 20), versions 1 to 6: by name, from version 6 on also by id.

A client that names an id and may not describe the topic is not told its name. An id that this
broker does not know yet is passed on only if everything is permitted.

Source: Kafka `ControllerApis.deleteTopics`, KIP-516.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.controller.errors import MetadataError
from penstock.kafka.answers.admin import error_fields, partitions_weight, topic_id_of
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import find_topic, parted, refusal, topic_with_id
from penstock.kafka.mutations import within_quota
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.DELETE_TOPICS
VERSIONS = range(1, 7)
SLICED_BY = (("topics",), ("topic_names",))
IS_LONG = True
TOPIC_ID_VERSION = 6
STRICT_VERSION = 5
"""From here on a client understands that its quota of mutations is used up (KIP-599)."""


def weigh(context: RequestContext, named: Any) -> int:
    """Return how many plain topics a topic is, by the partitions that it has now."""
    if isinstance(named, str):
        topic = find_topic(context.broker, named)
    else:
        topic = find_topic(context.broker, named.name, topic_id_of(named.topic_id))
    return partitions_weight(0 if topic is None else len(topic.partitions), None)


WEIGH = weigh


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Delete the topics, and answer topic by topic."""
    permitted, refused = parted(context, _references(request), lambda one: _refusal(context, one))
    is_strict = request.api_version >= STRICT_VERSION
    count = partial(_partitions, context)
    permitted = within_quota(context, permitted, refused, count, is_strict=is_strict)
    responses = [_response(_told_name(context, one), one.topic_id, error) for one, error in refused]
    if permitted or not refused:
        responses += await _submit(context, DeleteTopics(topics=tuple(permitted)))
    return {"responses": responses}


def _partitions(context: RequestContext, reference: TopicReference) -> int:
    topic = find_topic(context.broker, reference.name, reference.topic_id)
    return 0 if topic is None else len(topic.partitions)


def _refusal(context: RequestContext, reference: TopicReference) -> PlatformError | None:
    if reference.topic_id is None:
        return refusal(context, Operation.DELETE, Resource.TOPIC, reference.name or "")
    try:
        topic_with_id(context, reference.topic_id, Operation.DELETE)
    except PlatformError as error:
        return error
    return None


def _told_name(context: RequestContext, reference: TopicReference) -> str | None:
    if reference.topic_id is None:
        return reference.name
    try:
        return topic_with_id(context, reference.topic_id, Operation.DESCRIBE).name
    except PlatformError:
        return None


async def _submit(context: RequestContext, command: DeleteTopics) -> list[Mapping[str, object]]:
    outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        return [_response(topic.name, topic.topic_id, outcomes) for topic in command.topics]
    return [_response(outcome.name, outcome.topic_id, outcome.error) for outcome in outcomes]


def _response(
    name: str | None, topic_id: TopicId | None, error: PlatformError | None
) -> Mapping[str, object]:
    return {"name": name, "topic_id": topic_id, **error_fields(error)}


def _references(request: Request) -> tuple[TopicReference, ...]:
    if request.api_version < TOPIC_ID_VERSION:
        return tuple(TopicReference(name=name) for name in request.body.topic_names)
    return tuple(
        TopicReference(name=topic.name, topic_id=topic_id_of(topic.topic_id))
        for topic in request.body.topics
    )
