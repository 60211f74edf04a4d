"""DeleteTopics (key 20), versions 1 to 6: by name, from version 6 on also by id.

Source: Kafka `ControllerApis.deleteTopics`, KIP-516.
"""

from collections.abc import Mapping

from penstock.broker.submitting import submit
from penstock.controller.commands.command import DeletedTopic, DeleteTopics, TopicReference
from penstock.controller.errors import MetadataError
from penstock.kafka.answers.admin import error_fields, topic_id_of
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.DELETE_TOPICS
VERSIONS = range(1, 7)
SLICED_BY = (("topics",), ("topic_names",))
TOPIC_ID_VERSION = 6


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Delete, and answer topic by topic."""
    wanted = _references(request)
    outcomes = await submit(context.broker, DeleteTopics(topics=wanted))
    if isinstance(outcomes, MetadataError):
        outcomes = tuple(
            DeletedTopic(name=one.name, topic_id=one.topic_id, error=outcomes) for one in wanted
        )
    return {
        "responses": [
            {"name": one.name, "topic_id": one.topic_id, **error_fields(one.error)}
            for one in outcomes
        ]
    }


def _references(request: Request) -> tuple[TopicReference, ...]:
    if request.api_version < TOPIC_ID_VERSION:
        return tuple(TopicReference(name=name) for name in request.body.topic_names)
    return tuple(
        TopicReference(name=one.name, topic_id=topic_id_of(one.topic_id))
        for one in request.body.topics
    )
