"""TxnOffsetCommit (key 28), versions 0 to 5: positions that count once a transaction is committed.

They are written to the group's partition of the internal topic as a batch of the transaction, after
the transaction's coordinator has said that the partition is in it; from version 5 on the question
adds it (KIP-890). Versions 3 and up have the member's generation, of a consumer group (KIP-848) its
epoch. Answered when they are durable. Needs permission to write to the transactional id, and to
read the group and each topic.

All positions of a request are one batch, so no marker comes between two of them: in version 1 of
transactions what came behind it would be refused, and half of the positions would count. Many are
encoded ahead, in slices.

Source: Kafka `KafkaApis.handleTxnOffsetCommitRequest`, `GroupCoordinatorService`
(`commitTransactionalOffsets`), `CoordinatorOperationExceptionHelper`; KIP-98, KIP-447.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from penstock.base.errors import PlatformError
from penstock.base.ids import NO_LEADER_EPOCH
from penstock.broker.access import Operation, Resource
from penstock.broker.coordinators.lease import group_partition
from penstock.broker.turns import Pace
from penstock.controller.metadata.image import TopicImage
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord
from penstock.groups.journal import encode_position
from penstock.groups.messages import NO_GENERATION, NO_MEMBER_ID, CommitOffsets
from penstock.groups.offsets.commits import PENDING_MAX
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import group_error, refusal, topic
from penstock.kafka.request import Request
from penstock.kafka.transactions.verified import verified
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.TXN_OFFSET_COMMIT
VERSIONS = range(6)
LOADING_VERSION = 2
"""From here on clients know COORDINATOR_LOAD_IN_PROGRESS in this answer."""
ABORTABLE_VERSION = 4
ADDING_VERSION = 5
FEW = 500
"""Positions that are encoded where they are appended, which takes 1 ms."""

_TOLD: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""What the transaction's coordinator says, for a client that speaks with the group's: it is to ask
this one again."""

Offsets = dict[TopicKey, CommittedOffset]
Errors = dict[TopicKey, ErrorCode]
Records = dict[TopicKey, JournalRecord]


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Refuse what is unknown or not permitted, and let the coordinators decide about the rest."""
    body, pace = request.body, Pace(request.turns)
    refused = refusal(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, body.transactional_id)
    code = group_error(context, body.group_id, Operation.READ)
    if refused is not None:
        code = error_code_of(refused)
    offsets: Offsets = {}
    errors: Errors = {}
    if code is ErrorCode.NONE:
        for one in body.topics:
            await pace.step()
            await _look(context, one, offsets, errors, pace)
        errors |= await _commit(context, request, offsets, pace)
    return await _answer(request, errors, code, pace)


async def _look(
    context: RequestContext, asked: Any, offsets: Offsets, errors: Errors, pace: Pace
) -> None:
    """Sort the positions of a topic into those to be written and those that are refused."""
    found: TopicImage | None = None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        found = topic(context, asked.name, Operation.READ)
    except PlatformError as refused:
        error = error_code_of(refused)
    wall_ms = context.broker.clock.wall_ms()
    for one in asked.partitions:
        await pace.step()
        key = TopicKey(asked.name, one.partition_index)
        if found is None or not 0 <= key.partition < len(found.partitions):
            errors[key] = error
            continue
        offsets[key] = CommittedOffset(
            offset=one.committed_offset,
            leader_epoch=getattr(one, "committed_leader_epoch", NO_LEADER_EPOCH),
            metadata=one.committed_metadata or "",
            commit_timestamp_ms=wall_ms,
            topic_id=found.topic_id,
        )


async def _commit(
    context: RequestContext, request: Request, offsets: Offsets, pace: Pace
) -> Errors:
    """Write them in the transaction, and wait until they are durable."""
    broker, body = context.broker, request.body
    hosted = group_partition(broker, body.group_id)
    if not offsets:
        return {}
    if hosted is None:
        return dict.fromkeys(offsets, ErrorCode.NOT_COORDINATOR)
    if len(offsets) > PENDING_MAX:
        return dict.fromkeys(offsets, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    records = await _encoded(body.group_id, offsets, pace)
    writer = Writer(body.producer_id, body.producer_epoch)
    adds = request.api_version >= ADDING_VERSION
    async with verified(broker, hosted, body.transactional_id, writer, adds=adds) as code:
        if code is not ErrorCode.NONE:
            return dict.fromkeys(offsets, _TOLD.get(code, code))
        asked = _asked(body, writer, offsets, records)
        answers: asyncio.Future[Mapping[TopicKey, ErrorCode]]
        answers = asyncio.get_running_loop().create_future()
        broker.groups.commit(asked, answers.set_result)
    return {**await answers}


async def _encoded(group_id: str, offsets: Offsets, pace: Pace) -> Records:
    """Return the records of many positions; none if there are few."""
    records: Records = {}
    if len(offsets) > FEW:
        for key, offset in offsets.items():
            await pace.step()
            records[key] = encode_position(group_id, key, offset)
    return records


def _asked(body: Any, writer: Writer, offsets: Offsets, records: Records) -> CommitOffsets:
    return CommitOffsets(
        group_id=body.group_id,
        generation=getattr(body, "generation_id", NO_GENERATION),
        member_id=getattr(body, "member_id", NO_MEMBER_ID),
        instance_id=getattr(body, "group_instance_id", None),
        writer=writer,
        offsets=offsets,
        records=records,
    )


async def _answer(
    request: Request, errors: Errors, otherwise: ErrorCode, pace: Pace
) -> dict[str, object]:
    topics: list[dict[str, object]] = []
    for one in request.body.topics:
        await pace.step()
        partitions: list[dict[str, object]] = []
        topics.append({"name": one.name, "partitions": partitions})
        for each in one.partitions:
            await pace.step()
            code = errors.get(TopicKey(one.name, each.partition_index), otherwise)
            told = _told(code, request.api_version)
            partitions.append({"partition_index": each.partition_index, "error_code": told})
    return {"topics": topics}


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """Return what a client of this version is told."""
    if code is ErrorCode.INVALID_TXN_STATE and version >= ABORTABLE_VERSION:
        return ErrorCode.TRANSACTION_ABORTABLE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
