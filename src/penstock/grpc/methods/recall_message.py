"""RecallMessage: a message of the type DELAY is taken back before its time.

It is named by the handle that its sender was told. Clients ask the node that they know first, so
the master of the message's set is asked if that is another one (remoting/recall/asking.py).
Answered when it is confirmed: then the message is never delivered. What is delivered, or about to
be, is MESSAGE_NOT_FOUND.

Source: RocketMQ's proxy `RecallMessageActivity`. Departures: the code of what comes too late, which
the proxy has as an internal error; and that a recall that is answered has its effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.grpc.call import Call, Method
from penstock.grpc.gate import find_topic, topic_name
from penstock.grpc.proto.messages import RecallMessageRequest, RecallMessageResponse, Status
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode
from penstock.remoting.recall.asking import RecallDesk
from penstock.remoting.recall.errors import BadHandle
from penstock.remoting.recall.handle import Handle, read_handle

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedTopic

_OK: Final = Status(code=Code.OK, message="OK")


def _handle(call: Call, message: bytes) -> None:
    request = decode(RecallMessageRequest, message)
    topic = find_topic(call.client, topic_name(request.topic), Operation.WRITE)
    handle = read_handle(request.recall_handle)
    if handle.topic != topic.name:
        raise BadHandle("recall failed, topic not match")
    call.client.front.spawn("recall of a message", _recall(call, handle, topic))


async def _recall(call: Call, handle: Handle, topic: HostedTopic) -> None:
    front = call.client.front
    desk = RecallDesk(call.client.broker, front.keeping.recalls, front.desk.calls)
    try:
        await desk.recall(handle, topic.topic_id)
    except PlatformError as error:
        call.fail(error)
        return
    call.reply(RecallMessageResponse(status=_OK, message_id=handle.message_id))


METHOD: Final = Method("RecallMessage", _handle)
