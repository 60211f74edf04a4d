"""CreateTopics (key 19), versions 2 to 7.

A client that may create a topic and not describe its configuration gets no configuration in return.

Source: Kafka `ControllerApis.createTopics`; KIP-464 (defaults), KIP-525 (configuration in the
answer, v5), KIP-516 (topic id, v7). Checks are the controller's.
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId
from penstock.broker.access import Operation, Resource
from penstock.broker.errors import TopicNotAuthorised
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.command import CreateTopics, NewTopic, TopicOutcome
from penstock.controller.errors import MetadataError
from penstock.controller.topic_config.describe import describe
from penstock.kafka.answers.admin import (
    config_fields,
    error_fields,
    moderate,
    partitions_weight,
    topic_entries,
)
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import creation_refusal, find_topic, may, parted
from penstock.kafka.mutations import owe, within_quota
from penstock.kafka.request import Request
from penstock.kafka.slices import config_weight
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.CREATE_TOPICS
VERSIONS = range(2, 8)
SLICED_BY = (("topics",),)
IS_LONG = True
STRICT_VERSION = 6
"""From here on a client understands that its quota of mutations is used up (KIP-599)."""
_CONFIG_ERROR = "topic_config_error_code"


def weigh(_context: RequestContext, topic: Any) -> int:
    """Return how many plain topics a topic is, by its partitions and settings."""
    weight = partitions_weight(topic.num_partitions, topic.assignments)
    return weight + config_weight(topic.configs)


WEIGH = weigh


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Create the topics, and answer topic by topic."""
    body, pace = request.body, Pace(request.turns)
    permitted, refused = parted(
        context,
        body.topics,
        lambda one: creation_refusal(context, one.name),
    )
    permitted = moderate(permitted, refused)
    if not body.validate_only:
        is_strict = request.api_version >= STRICT_VERSION
        permitted = within_quota(context, permitted, refused, _partitions, is_strict=is_strict)
    topics = [_refused(topic.name, error) for topic, error in refused]
    if permitted or not refused:
        command = CreateTopics(
            topics=tuple([await _new_topic(topic, pace) for topic in permitted]),
            validate_only=body.validate_only,
        )
        topics += await _submit(context, command)
    return {"topics": topics}


def _partitions(topic: Any) -> int:
    count: int = max(topic.num_partitions, len(topic.assignments), 1)
    return count


async def _submit(context: RequestContext, command: CreateTopics) -> list[Mapping[str, object]]:
    outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        return [_refused(topic.name, outcomes) for topic in command.topics]
    if not command.validate_only:
        by_default = {one.name for one in command.topics if one.partition_count < 0}
        made = [one for one in outcomes if one.error is None and one.name in by_default]
        owe(context, sum(max(one.partition_count - 1, 0) for one in made))
    return [_fields(context, outcome, is_dry=command.validate_only) for outcome in outcomes]


async def _new_topic(topic: Any, pace: Pace) -> NewTopic:
    assignments: dict[int, tuple[BrokerId, ...]] = {}
    for assignment in topic.assignments:
        await pace.step()
        assignments[assignment.partition_index] = assignment.broker_ids
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs={config.name: config.value for config in topic.configs},
    )


def _fields(
    context: RequestContext, outcome: TopicOutcome, *, is_dry: bool
) -> Mapping[str, object]:
    if outcome.error is not None:
        return _refused(outcome.name, outcome.error)
    told = {"name": outcome.name, "topic_id": None if is_dry else outcome.topic_id}
    if not may(context, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, outcome.name):
        hidden = error_code_of(TopicNotAuthorised())
        return {**_refused(outcome.name, None), **told, _CONFIG_ERROR: hidden}
    made = find_topic(context.broker, outcome.name)
    if made is None or is_dry:
        entries = describe(outcome.configs, context.front.configs.topic_defaults())
    else:
        entries = topic_entries(context, made)
    return {
        **told,
        **error_fields(None),
        "num_partitions": outcome.partition_count,
        "replication_factor": outcome.replication_factor,
        "configs": [config_fields(entry) for entry in entries],
    }


def _refused(name: str, error: PlatformError | None) -> Mapping[str, object]:
    return {
        "name": name,
        "topic_id": None,
        **error_fields(error),
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": None,
    }
