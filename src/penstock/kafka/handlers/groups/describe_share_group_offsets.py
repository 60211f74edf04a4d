"""DescribeShareGroupOffsets 0-1 (key 90): where the shares of groups are; version 1 with the lag.

The coordinator knows what may have a share, and asks the masters where each is. One that has not
begun has start offset -1, which is no error.

Source: Kafka, GroupCoordinatorService (describeShareGroupOffsets, describeShareGroupAllOffsets);
KIP-932, KIP-1226. Departures: a group that is none, or of another kind, is GROUP_ID_NOT_FOUND
instead of having no topics; a master that can not be asked is an error of its partitions instead of
shares that have not begun; a group whose topics are all asked for is answered once, however often
it is named. Who asks so is told of records in flight and of deliveries besides, in tagged fields of
version 1 (protocol/own_fields.py).
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.controller.metadata.image import TopicImage
from penstock.coordinator.calls.shares import NO_LAG, NOT_STARTED, SharePlace, ShareSummary
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import find_topic, may, told_group_error, topic
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
VERSIONS = range(2)
SLICED_BY = (("groups", "topics", "partitions"),)
IS_LONG = True

Fields = dict[str, object]


class _Asked(NamedTuple):
    """A topic, and what was asked of it; with an error all of it has this one."""

    name: str
    topic_id: bytes | None
    numbers: Sequence[int]
    error: ErrorCode = ErrorCode.NONE


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with the groups in their order; one of which all is told, once."""
    pace = Pace(request.turns)
    is_more = getattr(request.body, "with_deliveries", False)
    told = [
        await _told(context, one, pace, is_more)
        for one in request.body.groups
        # A name of three bytes would be answered with ten thousand partitions, each time.
        if one.topics is not None or request.is_first(one.group_id)
    ]
    return {"groups": told}


async def _told(context: RequestContext, asked: object, pace: Pace, is_more: bool) -> Fields:
    group_id, wanted = getattr(asked, "group_id", ""), getattr(asked, "topics", None)
    shares = context.broker.groups.shares
    error = told_group_error(context, group_id, Operation.DESCRIBE)
    shared = error or shares.shared(group_id)
    if isinstance(shared, ErrorCode):
        return {"group_id": group_id, "topics": [], "error_code": shared, "error_message": None}
    having = shared.partitions
    if wanted is None:
        topics = await _all(context, having, pace)
    else:
        topics = [_named(context, one.topic_name, one.partitions) for one in wanted]
    known: list[SharePlace] = []
    for one in topics:
        numbers = () if one.topic_id is None else having.get(one.topic_id, ())
        for number in one.numbers:
            await pace.step()
            if one.topic_id is not None and number in numbers:
                known.append(SharePlace(one.topic_id, number))
    found = await shares.masters.summaries(group_id, known, with_deliveries=is_more)
    told = [await _topic(context, one, found, pace, is_more) for one in topics]
    return {"group_id": group_id, "topics": told, "error_code": 0, "error_message": None}


async def _all(
    context: RequestContext, shared: Mapping[bytes, Iterable[int]], pace: Pace
) -> list[_Asked]:
    """Return all topics with shares that the client may describe; deleted ones are left out."""
    topics: list[_Asked] = []
    for topic_id, numbers in shared.items():
        await pace.step()
        image = find_topic(context.broker, None, TopicId(topic_id))
        if image is not None and may(context, Operation.DESCRIBE, Resource.TOPIC, image.name):
            topics.append(_Asked(image.name, topic_id, sorted(numbers)))
    return topics


def _named(context: RequestContext, name: str, numbers: Sequence[int]) -> _Asked:
    try:
        image = topic(context, name, Operation.DESCRIBE)
    except PlatformError as refused:
        return _Asked(name, None, numbers, error_code_of(refused))
    return _Asked(name, bytes(image.topic_id), numbers)


async def _topic(
    context: RequestContext,
    asked: _Asked,
    found: Mapping[SharePlace, ShareSummary],
    pace: Pace,
    is_more: bool,
) -> Fields:
    topic_id = None if asked.topic_id is None else TopicId(asked.topic_id)
    image = find_topic(context.broker, None, topic_id)
    partitions: list[Fields] = []
    for one in asked.numbers:
        await pace.step()
        told = _partition(context, asked, image, found, one) | _more(asked, found, one, is_more)
        partitions.append(told)
    return {
        "topic_name": asked.name,
        "topic_id": None if asked.topic_id is None else uuid.UUID(bytes=asked.topic_id),
        "partitions": partitions,
    }


def _partition(
    context: RequestContext,
    asked: _Asked,
    image: TopicImage | None,
    found: Mapping[SharePlace, ShareSummary],
    number: int,
) -> Fields:
    error = asked.error
    if not error and (image is None or not 0 <= number < len(image.partitions)):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nothing = ShareSummary(error)
    summary = (
        found.get(SharePlace(asked.topic_id or b"", number), nothing) if not error else nothing
    )
    epoch = 0
    if image is not None and summary.start_offset != NOT_STARTED:
        sets = context.broker.metadata.replica_sets
        epoch = sets[image.partitions.set_ids[number]].leader_epoch
    return {
        "partition_index": number,
        "start_offset": summary.start_offset,
        "leader_epoch": epoch,
        "lag": NO_LAG if summary.start_offset == NOT_STARTED else summary.lag,
        "error_code": summary.code,
        "error_message": None,
    }


def _more(
    asked: _Asked,
    found: Mapping[SharePlace, ShareSummary],
    number: int,
    is_more: bool,
) -> Fields:
    """Return our own fields of a share that has begun, if they are wanted."""
    summary = found.get(SharePlace(asked.topic_id or b"", number))
    if not is_more or summary is None or summary.start_offset == NOT_STARTED:
        return {}
    return {"in_flight": summary.in_flight_count, "delivered": summary.delivered}
