"""RECALL_MESSAGE: a message that waits for a time of its own is taken back.

It is named by the handle that its sender was told (recall/handle.py). Answered when that is
confirmed: then it is never delivered. What is delivered, or about to be, is refused; so is what
would be recalled of another topic.

Source: RocketMQ 5.3.3 `RecallMessageProcessor`, `RecallMessageRequestHeader`. Departure: RocketMQ
says that it has taken a recall, whatever becomes of it.
"""

from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.remoting.fields import text
from penstock.remoting.gate import find_topic
from penstock.remoting.later.group_topics import stored_name
from penstock.remoting.recall.errors import BadHandle
from penstock.remoting.recall.handle import read_handle
from penstock.remoting.recall.record import Recalled
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.RECALL_MESSAGE,)


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Recall the message. Raises what is told to the client."""
    name = text(command, "topic")
    topic = find_topic(context, name, Operation.WRITE)
    told = read_handle(text(command, "recallHandle"))
    if told.topic != name or stored_name(name) != name:
        raise BadHandle("recall failed, topic not match")
    recalled = Recalled(told.until_ms, topic.topic_id, told.message_id)
    done = partial(_answer, reply, told.message_id)
    context.front.keeping.recalls.recall(told.set_id, recalled, done)


def _answer(reply: Reply, message_id: str, outcome: int | PlatformError) -> None:
    if isinstance(outcome, PlatformError):
        reply.fail(outcome)
    else:
        reply({"msgId": message_id})
