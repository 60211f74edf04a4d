"""Recalls by the master of the set, wherever a client asks: here, or by a call to that broker.

Source: ours, docs/adr/0165.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.base.ids import ReplicaSetId
from penstock.coordinator.calls.asking import CallError
from penstock.coordinator.calls.recall import RecallRequest, RecallResponse
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.remoting.errors import SendTimedOut
from penstock.remoting.recall.errors import BadHandle, RecallsNotReady, TooLate, TooManyRecalls
from penstock.remoting.recall.record import Recalled

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.coordinator.calls.asking import Caller
    from penstock.remoting.recall.handle import Handle
    from penstock.remoting.recall.recalls import Recalls

ANSWER_MS: Final = 10_000
"""Longer than a client waits, and shorter than forever."""
_CODES: Final[dict[type[PlatformError], ErrorCode]] = {
    BadHandle: ErrorCode.INVALID_REQUEST,
    TooLate: ErrorCode.INVALID_TIMESTAMP,
    TooManyRecalls: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    SendTimedOut: ErrorCode.REQUEST_TIMED_OUT,
}


class RecallDesk:
    """See the module; one for each front that has clients who ask anywhere."""

    def __init__(self, broker: Broker, recalls: Recalls, calls: Caller) -> None:
        self._broker = broker
        self._recalls = recalls
        self._calls = calls

    async def recall(self, handle: Handle, topic_id: bytes) -> None:
        """Recall a message. Raises RecallRefused, RecallsNotReady, ReplicationError kinds."""
        found = self._broker.metadata.replica_sets.get(handle.set_id)
        if found is None:
            raise BadHandle("there is no such replica set")
        recalled = Recalled(handle.until_ms, topic_id, handle.message_id)
        if found.master == self._broker.broker_id:
            await recall_here(self._recalls, handle.set_id, recalled)
            return
        asked = RecallRequest(
            replica_set_id=handle.set_id,
            until_ms=handle.until_ms,
            topic_id=topic_id,
            message_id=handle.message_id,
        )
        try:
            answer = await self._calls.ask(found.master, asked, timeout_ms=ANSWER_MS)
        except CallError as error:
            raise RecallsNotReady(str(error) or type(error).__name__) from error
        _raise_for(answer)


async def recall_here(recalls: Recalls, set_id: ReplicaSetId, recalled: Recalled) -> None:
    """Recall a message of a set that is led here. Raises what Recalls.recall does, or tells."""
    outcome: asyncio.Future[int | PlatformError] = asyncio.get_running_loop().create_future()

    def done(told: int | PlatformError) -> None:
        if not outcome.done():
            outcome.set_result(told)  # else its task was ended

    recalls.recall(set_id, recalled, done)
    told = await outcome
    if isinstance(told, PlatformError):
        raise told


async def answer(recalls: Recalls, asked: RecallRequest) -> RecallResponse:
    """Answer another broker."""
    recalled = Recalled(asked.until_ms, asked.topic_id, asked.message_id)
    try:
        await recall_here(recalls, ReplicaSetId(asked.replica_set_id), recalled)
    except PlatformError as error:
        code = _CODES.get(type(error), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return RecallResponse(code=code, reason=str(error)[:500])
    return RecallResponse(code=ErrorCode.NONE)


def _raise_for(response: RecallResponse) -> None:
    match known_code(response.code):
        case ErrorCode.NONE:
            return
        case ErrorCode.INVALID_REQUEST:
            raise BadHandle(response.reason)
        case ErrorCode.INVALID_TIMESTAMP:
            raise TooLate
        case ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            raise TooManyRecalls(response.reason)
        case ErrorCode.REQUEST_TIMED_OUT:
            raise SendTimedOut
        case _:
            raise RecallsNotReady(response.reason)
