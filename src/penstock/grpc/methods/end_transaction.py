"""EndTransaction: a producer commits its half message, or rolls it back.

Answered when the decision is confirmed. The first one counts, whether its producer makes it by
itself or is asked (producing/asking.py), and whichever protocol it comes by: one that contradicts
it is refused, an equal one succeeds and changes nothing. A resolution that is not told changes
nothing.

A half message is named by its transaction id, and has to be of the topic and of the message id that
the request has. The master of its set is asked if that is another node: the one that took it may
have handed the set over, and some clients ask the node that they know first.

Source: RocketMQ's proxy `EndTransactionActivity`; remoting/handlers/end_transaction.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.gate import find_topic, topic_name
from penstock.grpc.producing.transactions import read_transaction_id
from penstock.grpc.proto.messages import Answer, EndTransactionRequest, Status
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode
from penstock.remoting.halves.passing_on import Decision, check_half, decide_there, master_of
from penstock.remoting.halves.record import Outcome
from penstock.remoting.halves.work import Decide

if TYPE_CHECKING:
    from penstock.base.ids import BrokerId
    from penstock.broker.partitions import HostedTopic

_OK: Final = Answer(status=Status(code=Code.OK, message="OK"))
_UNKNOWN: Final = 0
_OUTCOMES: Final = {1: Outcome.COMMIT, 2: Outcome.ROLLBACK}
_SOURCE_MAX: Final = 2
"""Told by the client itself, 1, or asked for by the server, 2: it is the same decision."""


def _handle(call: Call, message: bytes) -> None:
    request = decode(EndTransactionRequest, message)
    topic = find_topic(call.client, topic_name(request.topic), Operation.WRITE)
    outcome = _OUTCOMES.get(request.resolution)
    if outcome is None and request.resolution != _UNKNOWN:
        told = f"{request.resolution} is neither commit (1), rollback (2) nor unknown (0)"
        raise Refused(Code.BAD_REQUEST, told)
    if not 0 <= request.source <= _SOURCE_MAX:
        raise Refused(Code.BAD_REQUEST, f"{request.source} is no source of a decision")
    if not request.message_id:
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "a decision names the id of its message")
    located, front = read_transaction_id(request.transaction_id), call.client.front
    halves = front.keeping.halves
    partition, offset = located.partition, located.offset
    master = master_of(call.client.broker, halves, partition)
    if master is not None and outcome is not None:
        decision = Decision(partition, offset, outcome, request.message_id)
        front.spawn("decision of a transaction", _pass_on(call, master, decision, topic))
        return
    place = check_half(halves, partition, offset, topic) if master is None else None
    if place is None or outcome is None:
        call.reply(_OK)
        return
    done = partial(_answer, call)
    halves.end(place, Decide(offset, outcome, done, request.message_id))


async def _pass_on(call: Call, master: BrokerId, decision: Decision, topic: HostedTopic) -> None:
    try:
        await decide_there(call.client.front.desk.calls, master, decision, topic)
    except PlatformError as error:
        call.fail(error)
        return
    call.reply(_OK)


def _answer(call: Call, outcome: int | PlatformError) -> None:
    if isinstance(outcome, PlatformError):
        call.fail(outcome)
    else:
        call.reply(_OK)


METHOD: Final = Method("EndTransaction", _handle)
