"""ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what else becomes of a message.

    change      nobody else gets it for so long from now on; its receipt is another one then
                0: it may be received at once
    forward     it is a dead letter: copied to rmq.dlq.GROUP, and never delivered again

A message whose time was changed is not renewed any more: its consumer says what becomes of it.

Source: RocketMQ's proxy `ChangeInvisibleDurationActivity`, `ForwardMessageToDLQActivity`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.grpc.call import Call, Method
from penstock.grpc.consuming.claims import Claimed, claimed, say
from penstock.grpc.consuming.receipts import write_receipt
from penstock.grpc.consuming.times import invisible_ms
from penstock.grpc.gate import group_name, popped_topic, topic_name
from penstock.grpc.proto.messages import (
    Answer,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    Status,
)
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode
from penstock.remoting.pop.receipts import number_of
from penstock.remoting.pop.saying import change, refusal
from penstock.shares.answers import Say

if TYPE_CHECKING:
    from penstock.shares.messages import Answer as ShareAnswer

_OK: Final = Status(code=Code.OK, message="OK")
_Request = ChangeInvisibleDurationRequest | ForwardMessageToDeadLetterQueueRequest


def _change(call: Call, message: bytes) -> None:
    request = decode(ChangeInvisibleDurationRequest, message)
    group, claim = _claimed(call, request)
    ms = invisible_ms(call.client, request.invisible_duration, 0)
    say(call, claim, change(ms), ms, partial(_changed, call, group, claim, request.receipt_handle))


def _forward(call: Call, message: bytes) -> None:
    group, claim = _claimed(call, decode(ForwardMessageToDeadLetterQueueRequest, message))
    say(call, claim, Say.REJECT, None, partial(_forwarded, call, group))


def _claimed(call: Call, request: _Request) -> tuple[str, Claimed]:
    """Return who speaks of which message. Raises what is told to the client."""
    client = call.client
    group = group_name(client, request.group)
    topic = popped_topic(client, group, topic_name(request.topic))
    client.front.consumers.hear(call.member, client.broker.clock.monotonic_ms())
    return group, claimed(topic, group, request.receipt_handle)


def _is_refused(call: Call, group: str, answer: ShareAnswer) -> bool:
    refused = refusal(answer)
    if refused is not None:
        call.client.front.desk.pops.note(group, "refused")
        call.fail(refused)
    return refused is not None


def _changed(call: Call, group: str, claim: Claimed, handle: str, answer: ShareAnswer) -> None:
    if _is_refused(call, group, answer):
        return
    call.client.front.desk.pops.note(group, "renewed")
    if answer.nonce:
        number = number_of(claim.key, answer.nonce)
        handle = write_receipt(claim.hosted.partition, claim.offset, number).decode()
    call.reply(ChangeInvisibleDurationResponse(status=_OK, receipt_handle=handle))


def _forwarded(call: Call, group: str, answer: ShareAnswer) -> None:
    if not _is_refused(call, group, answer):
        call.reply(Answer(status=_OK))


CHANGE: Final = Method("ChangeInvisibleDuration", _change)
FORWARD: Final = Method("ForwardMessageToDeadLetterQueue", _forward)
