"""CreatePartitions (key 37), versions 0 to 3.

Source: Kafka `ControllerApis.createPartitions`, KIP-195.
"""

from collections.abc import Mapping
from typing import Any

from penstock.broker.submitting import submit
from penstock.controller.commands.command import CreatePartitions, MorePartitions, TopicOutcome
from penstock.controller.errors import MetadataError
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.CREATE_PARTITIONS
VERSIONS = range(4)
SLICED_BY = (("topics",),)


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Add partitions, and answer topic by topic."""
    wanted = request.body.topics
    command = CreatePartitions(
        topics=tuple(_more_partitions(topic) for topic in wanted),
        validate_only=request.body.validate_only,
    )
    outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        outcomes = tuple(TopicOutcome(name=topic.name, error=outcomes) for topic in wanted)
    return {"results": [{"name": one.name, **error_fields(one.error)} for one in outcomes]}


def _more_partitions(topic: Any) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        name=topic.name,
        partition_count=topic.count,
        assignments=None if assignments is None else tuple(one.broker_ids for one in assignments),
    )
