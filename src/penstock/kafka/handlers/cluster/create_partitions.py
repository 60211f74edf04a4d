"""CreatePartitions (key 37), versions 0 to 3.

Source: Kafka `ControllerApis.createPartitions`, KIP-195.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from penstock.base.ids import BrokerId
from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.command import CreatePartitions, MorePartitions
from penstock.controller.errors import MetadataError
from penstock.kafka.answers.admin import error_fields, moderate, partitions_weight
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import find_topic, parted, refusal
from penstock.kafka.mutations import within_quota
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.CREATE_PARTITIONS
VERSIONS = range(4)
SLICED_BY = (("topics",),)
IS_LONG = True
STRICT_VERSION = 3
"""From here on a client understands that its quota of mutations is used up (KIP-599)."""


def weigh(_context: RequestContext, topic: Any) -> int:
    """Return how many plain topics a topic is, by its partitions."""
    return partitions_weight(topic.count, topic.assignments)


WEIGH = weigh


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Add partitions, and answer topic by topic."""
    permitted, refused = parted(
        context,
        request.body.topics,
        lambda one: refusal(context, Operation.ALTER, Resource.TOPIC, one.name),
    )
    permitted = moderate(permitted, refused)
    if not request.body.validate_only:
        permitted = within_quota(
            context,
            permitted,
            refused,
            partial(_added, context),
            is_strict=request.api_version >= STRICT_VERSION,
        )
    results = [{"name": topic.name, **error_fields(error)} for topic, error in refused]
    if permitted or not refused:
        pace = Pace(request.turns)
        command = CreatePartitions(
            topics=tuple([await _more_partitions(topic, pace) for topic in permitted]),
            validate_only=request.body.validate_only,
        )
        results += await _submit(context, command)
    return {"results": results}


def _added(context: RequestContext, topic: Any) -> int:
    known = find_topic(context.broker, topic.name)
    return 0 if known is None else max(0, topic.count - len(known.partitions))


async def _submit(context: RequestContext, command: CreatePartitions) -> list[dict[str, object]]:
    outcomes = await submit(context.broker, command)
    if isinstance(outcomes, MetadataError):
        return [{"name": topic.name, **error_fields(outcomes)} for topic in command.topics]
    return [{"name": outcome.name, **error_fields(outcome.error)} for outcome in outcomes]


async def _more_partitions(topic: Any, pace: Pace) -> MorePartitions:
    assignments: list[tuple[BrokerId, ...]] = []
    for assignment in topic.assignments or ():
        await pace.step()
        assignments.append(assignment.broker_ids)
    return MorePartitions(
        name=topic.name,
        partition_count=topic.count,
        assignments=None if topic.assignments is None else tuple(assignments),
    )
