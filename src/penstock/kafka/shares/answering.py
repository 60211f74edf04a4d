"""Answers what coordinators of share groups ask of the master of the data (calls/shares.py).

Source: Kafka `ShareCoordinatorService` (initializeState, readStateSummaries, deleteState), which
keeps the state elsewhere.
"""

import asyncio
from collections.abc import Iterator
from itertools import zip_longest

from penstock.broker.awaited import awaited
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition
from penstock.broker.shares.moving import moved
from penstock.broker.shares.waiting import ready
from penstock.broker.tier.reach import first_offset
from penstock.broker.turns import Pace
from penstock.coordinator.calls.shares import (
    NO_LAG,
    ShareChange,
    ShareChangeKind,
    ShareChangeRequest,
    ShareCodesResponse,
    ShareLeaveRequest,
    SharePlace,
    ShareSummary,
    ShareSummaryRequest,
    ShareSummaryResponse,
)
from penstock.kafka.gate import hosted_topic_of_id
from penstock.kafka.shares.admissions import ShareAdmissions
from penstock.kafka.shares.change_order import AskedChanges, ChangeOrder
from penstock.kafka.shares.codes import code_of
from penstock.kafka.shares.freeing import CHANGE, free
from penstock.kafka.shares.sessions import ShareSessions
from penstock.protocol.error_codes import ErrorCode
from penstock.replica.replica_set import Role
from penstock.replication.errors import NotMaster
from penstock.shares.coordinator import Move
from penstock.shares.messages import Answer, Unavailable
from penstock.shares.reading import OFFSET_MAX
from penstock.shares.state import ShareKey

CHUNK = 4
"""Steps of a pace that counting one chunk of a share takes."""


class ShareAnswers:
    """The handlers of one broker."""

    __slots__ = ("_admissions", "_broker", "_order", "_sessions")

    def __init__(
        self, broker: Broker, sessions: ShareSessions, admissions: ShareAdmissions
    ) -> None:
        self._admissions = admissions
        self._broker = broker
        self._order = ChangeOrder(broker)
        self._sessions = sessions

    async def summaries(self, question: ShareSummaryRequest) -> ShareSummaryResponse:
        """Say where shares are; one that has not begun has no offset, which is no error."""
        pace = Pace(self._broker.turns)
        found: list[ShareSummary] = []
        for place in question.places:
            await pace.step()
            found.append(await self._summary(question, place, pace))
        return ShareSummaryResponse(found=tuple(found))

    async def _summary(
        self, question: ShareSummaryRequest, place: SharePlace, pace: Pace
    ) -> ShareSummary:
        hosted = self._led(place)
        if isinstance(hosted, ErrorCode):
            return ShareSummary(hosted)
        key = ShareKey(question.group, bytes(place.topic_id), place.partition)
        if self._broker.share_places.internal_partition_of(key) is None:
            return ShareSummary(ErrorCode.NONE)  # no share in the set has begun yet
        described = self._broker.shares.describe(key)
        if described is Unavailable.NOT_STARTED:
            return ShareSummary(ErrorCode.NONE)
        if isinstance(described, Unavailable):
            return ShareSummary(_code(described))
        end = hosted.member.high_watermark(hosted.log)
        unseen = None if end is None else max(end - described.end_offset, 0)
        lag = described.free_count + described.in_flight_count
        return ShareSummary(
            ErrorCode.NONE,
            max(described.start_offset, first_offset(hosted, self._broker.tier) or 0),
            described.end_offset,
            described.in_flight_count,
            NO_LAG if unseen is None else unseen + lag,
            await _delivered(described.delivered, pace) if question.with_deliveries else (),
        )

    async def change(self, question: ShareChangeRequest) -> ShareCodesResponse:
        """Let shares begin, begin elsewhere, or be forgotten; told once that is confirmed."""
        try:
            kind = ShareChangeKind(question.kind)
        except ValueError:  # of a later release
            unknown = ErrorCode.UNSUPPORTED_VERSION
            return ShareCodesResponse(codes=(unknown,) * len(question.changes))
        asked = self._order.begin(question)
        if asked is None:
            replaced = ErrorCode.NOT_COORDINATOR
            return ShareCodesResponse(codes=(replaced,) * len(question.changes))
        pace = Pace(self._broker.turns)
        begun: list[asyncio.Task[ErrorCode]] = []
        try:
            for key, change in zip(asked.keys, question.changes, strict=True):
                await pace.step(CHANGE)
                work = self._change(asked, key, kind, change)
                begun.append(asyncio.get_running_loop().create_task(work))
            codes = await asyncio.gather(*begun)
        finally:
            for task in begun:
                task.cancel()
            asked.end()
        return ShareCodesResponse(codes=tuple(codes))

    async def _change(
        self, asked: AskedChanges, key: ShareKey, kind: ShareChangeKind, change: ShareChange
    ) -> ErrorCode:
        hosted = self._led(SharePlace(change.topic_id, change.partition))
        if isinstance(hosted, ErrorCode):
            return hosted
        if not 0 <= change.offset <= OFFSET_MAX:
            return ErrorCode.INVALID_REQUEST
        if kind is ShareChangeKind.DELETE:
            return await self._delete(asked, key, hosted)
        leader_epoch = hosted.member.leader_epoch
        why = await ready(self._broker, key)
        if why is not None and why is not Unavailable.NOT_STARTED:
            return _code(why)
        # Another master may have heard of a deletion meanwhile.
        if not asked.stand(key) or hosted.member.leader_epoch != leader_epoch:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_reset = kind is ShareChangeKind.RESET and why is None
        move = Move.RESET if is_reset else Move.START
        return code_of((await moved(self._broker, key, change.offset, move)).why_not)

    async def _delete(
        self, asked: AskedChanges, key: ShareKey, hosted: HostedPartition
    ) -> ErrorCode:
        """Forget a share, and that it might begin: so none is left that was asked for before."""
        self._admissions.void(key)
        if self._broker.share_places.internal_partition_of(key) is None:
            try:
                hosted.member.check_readable()
            except NotMaster:  # the next master may have a place, and the share
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.NONE
        why = await ready(self._broker, key)
        if not asked.stand(key):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if why is None:
            told: asyncio.Future[Answer]
            told, tell = awaited()
            self._broker.shares.delete(key, tell)
            return code_of((await told).why_not)
        return ErrorCode.NONE if why is Unavailable.NOT_STARTED else _code(why)

    async def leave(self, question: ShareLeaveRequest) -> ShareCodesResponse:
        """End the session of a member, and free what it holds here, wherever that is."""
        group, member = question.group, question.member
        self._sessions.end(group, member)
        pace = Pace(self._broker.turns)
        keys: list[ShareKey] = []
        for number, key in enumerate(self._broker.shares.here.keys()):
            if not number % 20:
                await pace.step()
            if key.group == group:
                keys.append(key)
        return ShareCodesResponse(codes=(await free(self._broker, keys, member),))

    def _led(self, place: SharePlace) -> HostedPartition | ErrorCode:
        topic = hosted_topic_of_id(self._broker, bytes(place.topic_id))
        if topic is None or not 0 <= place.partition < len(topic.placed):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        hosted = topic.find(place.partition)
        if hosted is None or hosted.member.role is not Role.MASTER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return hosted


async def _delivered(chunks: Iterator[list[int]], pace: Pace) -> tuple[int, ...]:
    """Return the sums of all chunks, without zeros at the end."""
    sums: list[int] = []
    for counts in chunks:
        await pace.step(CHUNK)
        sums = [one + other for one, other in zip_longest(sums, counts, fillvalue=0)]
    while sums and not sums[-1]:
        sums.pop()
    return tuple(sums)


def _code(why: Unavailable) -> ErrorCode:
    """Return the code for a coordinator: it asks again where the share is being loaded."""
    if why is Unavailable.LOADING:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code_of(why)
