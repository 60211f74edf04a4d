"""AlterShareGroupOffsets 0 (key 91): shares of an empty group begin elsewhere, also further back.

What gets a share is noted first, so that DeleteGroups finds it; then the masters move the shares.
Members are kept out of the group meanwhile.

Source: Kafka, GroupMetadataManager.alterShareGroupOffsets; KIP-932.
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.awaited import awaited
from penstock.broker.turns import Pace
from penstock.coordinator.calls.shares import ShareChange, ShareChangeKind, SharePlace
from penstock.groups.share.administration import HeldGroup
from penstock.groups.share.records import SharedTopic
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import told_group_error, topic
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.ALTER_SHARE_GROUP_OFFSETS
VERSIONS = range(1)
IS_LONG = True

Fields = dict[str, object]
_Found = tuple[bytes | None, int, ErrorCode]
"""Id of a topic, how many partitions it has, and why it is refused."""


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with a code for each partition, once all shares are where they are to be."""
    body = request.body
    error = told_group_error(context, body.group_id, Operation.READ)
    held = error or context.broker.groups.shares.hold(body.group_id, creates=True)
    if isinstance(held, ErrorCode):
        return {"error_code": held, "error_message": None, "responses": []}
    try:
        return await _altered(context, request, held)
    finally:
        held.end()


async def _altered(context: RequestContext, request: Request, held: HeldGroup) -> Fields:
    pace = Pace(request.turns)
    changes: dict[SharePlace, ShareChange] = {}
    names: dict[bytes, str] = {}
    real: dict[bytes, set[int]] = {}
    known: dict[str, _Found] = {}
    for asked in request.body.topics:
        await pace.step()
        name = asked.topic_name
        topic_id, count, _ = known[name] = known.get(name) or _found(context, name)
        if topic_id is None:
            continue
        for one in asked.partitions:
            await pace.step()
            if 0 <= one.partition_index < count:
                names[topic_id] = name
                real.setdefault(topic_id, set()).add(one.partition_index)
                place = SharePlace(topic_id, one.partition_index)
                changes[place] = ShareChange(*place, one.start_offset)
    topics = {one: SharedTopic(names[one], frozenset(some)) for one, some in real.items()}
    written: asyncio.Future[ErrorCode | None]
    written, tell = awaited()
    held.add(topics, tell)
    if (error := await written) is not None:
        return {"error_code": error, "error_message": None, "responses": []}
    masters, body = context.broker.groups.shares.masters, request.body
    codes = await masters.change(
        body.group_id, ShareChangeKind.RESET, changes.values(), held.coordinator_epoch
    )
    responses = [await _topic(one, known[one.topic_name], codes, pace) for one in body.topics]
    return {"error_code": ErrorCode.NONE, "error_message": None, "responses": responses}


def _found(context: RequestContext, name: str) -> _Found:
    """Return the id of a topic and how many partitions it has, or why it is refused."""
    try:
        image = topic(context, name, Operation.READ)
    except PlatformError as refused:
        return None, 0, error_code_of(refused)
    return bytes(image.topic_id), len(image.partitions), ErrorCode.NONE


async def _topic(
    asked: Any, found: _Found, codes: Mapping[SharePlace, ErrorCode], pace: Pace
) -> Fields:
    topic_id, _, error = found
    unknown = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions: list[Fields] = []
    await pace.step()
    for one in asked.partitions:
        await pace.step()
        place = SharePlace(topic_id or b"", one.partition_index)
        code = codes.get(place, unknown)
        partitions.append(
            {"partition_index": one.partition_index, "error_code": code, "error_message": None}
        )
    return {
        "topic_name": asked.topic_name,
        "topic_id": None if topic_id is None else uuid.UUID(bytes=topic_id),
        "partitions": partitions,
    }
