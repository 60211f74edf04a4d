"""A decision of a gRPC producer goes to the master of its half message: here, or by a call to it.

A half message is named by its place. It has to be of the topic that the producer names, and of a
gRPC producer of it, whose group is the topic.

Source: ours, docs/adr/0204.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.controller.metadata.image import NO_MASTER
from penstock.coordinator.calls.asking import CallError
from penstock.coordinator.calls.decision import DecisionRequest, DecisionResponse
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.remoting.errors import (
    AlreadyDecided,
    HalvesNotReady,
    MessageGone,
    SendTimedOut,
    TooManyHalves,
    WrongHalf,
)
from penstock.remoting.halves.record import Outcome
from penstock.remoting.halves.work import Decide
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.base.ids import BrokerId
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.coordinator.calls.asking import Caller
    from penstock.remoting.halves.halves import Halves

ANSWER_MS: Final = 10_000
"""Longer than a client waits, and shorter than forever."""
REASON_CHARACTERS_MAX: Final = 500
_CODES: Final[dict[type[PlatformError], ErrorCode]] = {
    MessageGone: ErrorCode.INVALID_REQUEST,
    WrongHalf: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    AlreadyDecided: ErrorCode.INVALID_TXN_STATE,
    TooManyHalves: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    SendTimedOut: ErrorCode.REQUEST_TIMED_OUT,
}
_ERRORS: Final = {code: kind for kind, code in _CODES.items()}


class Decision(NamedTuple):
    """What a producer has decided."""

    partition: int
    """Of the internal topic of half messages."""
    offset: int
    outcome: Outcome
    """COMMIT or ROLLBACK."""
    message_id: str


def check_half(halves: Halves, partition: int, offset: int, topic: HostedTopic) -> HostedPartition:
    """Return the place of a half message of a set that is led here.

    Raises WrongHalf, MessageGone, NotMaster and others of partitions that are not led here.
    """
    place = halves.place(partition)
    found, of = halves.find(place, offset), halves.topic_of(place, offset)
    is_of_group = found is None or found.half.group == topic.name
    if not is_of_group or of not in {None, topic}:
        raise WrongHalf("the half message is not one of gRPC producers of this topic")
    return place


async def decide_here(halves: Halves, decision: Decision, topic: HostedTopic) -> None:
    """Decide a half message of a set that is led here; returns once that is confirmed."""
    place = check_half(halves, decision.partition, decision.offset, topic)
    outcome: asyncio.Future[int | PlatformError] = asyncio.get_running_loop().create_future()

    def done(told: int | PlatformError) -> None:
        if not outcome.done():
            outcome.set_result(told)  # else its task was ended

    halves.end(place, Decide(decision.offset, decision.outcome, done, decision.message_id))
    told = await outcome
    if isinstance(told, PlatformError):
        raise told


async def decide_there(
    calls: Caller, master: BrokerId, decision: Decision, topic: HostedTopic
) -> None:
    """Have the master of the set decide it. Raises what `decide_here` does, and HalvesNotReady."""
    asked = DecisionRequest(
        partition=decision.partition,
        offset=decision.offset,
        is_commit=decision.outcome is Outcome.COMMIT,
        topic_id=topic.topic_id,
        message_id=decision.message_id,
    )
    try:
        answer = await calls.ask(master, asked, timeout_ms=ANSWER_MS)
    except CallError as error:
        raise HalvesNotReady(str(error) or type(error).__name__) from error
    code = known_code(answer.code)
    if code is not ErrorCode.NONE:
        raise _ERRORS.get(code, HalvesNotReady)(answer.reason)


def master_of(broker: Broker, halves: Halves, partition: int) -> BrokerId | None:
    """Return the other broker that leads half messages; None if this one does, or nobody.

    Raises MessageGone where there are none.
    """
    found = broker.metadata.replica_sets.get(halves.set_of(partition))
    is_elsewhere = found is not None and found.master not in {NO_MASTER, broker.broker_id}
    return found.master if found is not None and is_elsewhere else None


async def answer(broker: Broker, halves: Halves, asked: DecisionRequest) -> DecisionResponse:
    """Answer another broker."""
    outcome = Outcome.COMMIT if asked.is_commit else Outcome.ROLLBACK
    decision = Decision(asked.partition, asked.offset, outcome, asked.message_id)
    try:
        topic = broker.partitions.by_id.get(asked.topic_id)
        if topic is None:
            raise NotMaster("the topic of the half message is not known here")
        await decide_here(halves, decision, topic)
    except PlatformError as error:
        code = _CODES.get(type(error), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return DecisionResponse(code=code, reason=str(error)[:REASON_CHARACTERS_MAX])
    return DecisionResponse(code=ErrorCode.NONE)
