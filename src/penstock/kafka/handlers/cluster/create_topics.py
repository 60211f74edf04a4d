"""CreateTopics (key 19), versions 2 to 7.

Source: Kafka `ControllerApis.createTopics`; KIP-464 (defaults), KIP-525 (configuration in the
answer, v5), KIP-516 (topic id, v7). Checks are the controller's.
"""

from collections.abc import Mapping
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.command import CreateTopics, NewTopic, TopicOutcome
from penstock.controller.errors import MetadataError
from penstock.controller.topic_config.table import describe
from penstock.kafka.answers.admin import config_fields, error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.CREATE_TOPICS
VERSIONS = range(2, 8)
SLICED_BY = (("topics",),)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Create, and answer topic by topic."""
    wanted, pace = request.body.topics, Pace(request.turns)
    command = CreateTopics(
        topics=tuple([await _new_topic(topic, pace) for topic in wanted]),
        validate_only=request.body.validate_only,
    )
    outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        outcomes = tuple(TopicOutcome(name=topic.name, error=outcomes) for topic in wanted)
    return {
        "topics": [
            _fields(context.broker, outcome, is_dry=command.validate_only) for outcome in outcomes
        ]
    }


async def _new_topic(topic: Any, pace: Pace) -> NewTopic:
    assignments: dict[int, tuple[int, ...]] = {}
    for one in topic.assignments:
        await pace.step()
        assignments[one.partition_index] = one.broker_ids
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs={one.name: one.value for one in topic.configs},
    )


def _fields(broker: Broker, outcome: TopicOutcome, *, is_dry: bool) -> Mapping[str, object]:
    failed = outcome.error is not None
    entries = () if failed else describe(outcome.configs, broker.metadata.defaults)
    return {
        "name": outcome.name,
        "topic_id": None if is_dry else outcome.topic_id,
        **error_fields(outcome.error),
        "num_partitions": outcome.partition_count,
        "replication_factor": outcome.replication_factor,
        "configs": None if failed else [config_fields(entry) for entry in entries],
    }
