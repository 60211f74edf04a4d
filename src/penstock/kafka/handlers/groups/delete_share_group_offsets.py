"""DeleteShareGroupOffsets 0 (key 92): the shares of topics in an empty group are forgotten.

The masters forget them; then the coordinator forgets that there were any. Members are kept out of
the group meanwhile. When members of the topic come again its shares begin as those of a new group.

Source: Kafka, GroupMetadataManager.sharePartitionsEligibleForOffsetDeletion; KIP-932.
"""

import asyncio
import uuid
from collections.abc import Mapping

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.awaited import awaited
from penstock.broker.turns import SLICE, Pace
from penstock.coordinator.calls.shares import ShareChange, ShareChangeKind, SharePlace
from penstock.groups.share.administration import HeldGroup
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import told_group_error, topic
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DELETE_SHARE_GROUP_OFFSETS
VERSIONS = range(1)
IS_LONG = True

NOTHING_THERE = "There is no offset information to delete."
Fields = dict[str, object]


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Answer with a code for each topic, each once, when its shares are forgotten for good."""
    body = request.body
    error = told_group_error(context, body.group_id, Operation.DELETE)
    held = error or context.broker.groups.shares.hold(body.group_id)
    if isinstance(held, ErrorCode):
        return {"error_code": held, "error_message": None, "responses": []}
    try:
        return await _deleted(context, request, held)
    finally:
        held.end()


async def _deleted(context: RequestContext, request: Request, held: HeldGroup) -> Fields:
    pace = Pace(request.turns)
    told: list[Fields] = []
    wanted: dict[bytes, str] = {}
    for name in dict.fromkeys(one.topic_name for one in request.body.topics):
        await pace.step()
        refused, topic_id = _found(context, name)
        if topic_id is None:
            told.append(_topic(name, None, refused))
        elif topic_id not in held.shared.topics:
            told.append(_topic(name, topic_id, refused, NOTHING_THERE))
        else:
            wanted[topic_id] = name
    failed = await _forgotten(context, request.body.group_id, held, wanted, pace)
    written: asyncio.Future[ErrorCode | None]
    written, tell = awaited()
    held.drop([one for one in wanted if one not in failed], tell)
    if (error := await written) is not None:
        return {"error_code": error, "error_message": None, "responses": []}
    gone = [_topic(name, one, failed.get(one, ErrorCode.NONE)) for one, name in wanted.items()]
    return {"error_code": ErrorCode.NONE, "error_message": None, "responses": gone + told}


def _found(context: RequestContext, name: str) -> tuple[ErrorCode, bytes | None]:
    """Return the id of a topic, and what is told if it has no shares."""
    try:
        image = topic(context, name, Operation.READ)
    except PlatformError as refused:
        return error_code_of(refused), None
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, bytes(image.topic_id)


async def _forgotten(
    context: RequestContext, group_id: str, held: HeldGroup, wanted: Mapping[bytes, str], pace: Pace
) -> dict[bytes, ErrorCode]:
    """Let the masters forget the shares; return the topics of which some may be left, with why."""
    changes: list[ShareChange] = []
    for topic_id in wanted:
        await pace.step(SLICE)
        changes += (ShareChange(topic_id, one) for one in held.shared.topics[topic_id].numbers)
    masters = context.broker.groups.shares.masters
    codes: Mapping[SharePlace, ErrorCode] = await masters.change(
        group_id, ShareChangeKind.DELETE, changes, held.coordinator_epoch
    )
    return {place.topic_id: code for place, code in codes.items() if code}


def _topic(
    name: str, topic_id: bytes | None, error: ErrorCode, message: str | None = None
) -> Fields:
    return {
        "topic_name": name,
        "topic_id": None if topic_id is None else uuid.UUID(bytes=topic_id),
        "error_code": error,
        "error_message": message,
    }
