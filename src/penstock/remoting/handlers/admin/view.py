"""VIEW_MESSAGE_BY_ID: one message, by its topic and the locator in its offset id.

    found                SUCCESS, the message as a pull has it
    not there (any more) SYSTEM_ERROR

A message of a retry topic is looked for by that topic's name, `%RETRY%GROUP`.

Source: RocketMQ 5.3.3 `QueryMessageProcessor.viewMessageById`, `ViewMessageRequestHeader`.
Departures: a locator is a partition and an offset (ids.py), so the topic is needed, which clients
of 5.x send; what is not there is an error, where RocketMQ answers with an empty body, which its
clients can not read.
"""

from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.append.append import partition_of
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.remoting.errors import MessageGone
from penstock.remoting.fields import number, text
from penstock.remoting.filters.filtering import Messages
from penstock.remoting.gate import Found, find_topic
from penstock.remoting.handlers.at_place import read_at
from penstock.remoting.ids import located
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.reading import Wanted, read_messages
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.subscription import EVERYTHING
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import decode_messages

CODES: Final = (RequestCode.VIEW_MESSAGE_BY_ID,)
_GONE: Final = "there is no such message, or there is none any more"


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Read the message. Raises what is told to the client."""
    name = text(command, "topic")
    topic = find_topic(context, name, Operation.READ)
    place = located(number(command, "offset"))
    is_retry = retry_group(name) is not None
    if place is None:
        raise MessageGone(_GONE)
    if place.is_retry != is_retry:
        told = "a" if place.is_retry else "no"
        raise MessageGone(f"the id is that of a message in {told} retry topic, %RETRY%GROUP")
    hosted = partition_of(topic, place.partition)
    hosted.check_still_led()
    if context.meter is not None:
        context.meter.about(topic.name, hosted.partition)
    queue = context.front.queues_of(topic.topic_id, tuple(topic.placed)).queue(hosted.partition)
    host, found = context.front.own_host(), Found(hosted, queue)
    wanted = Wanted(name, found, place.offset, 1, EVERYTHING, host, topic.topic_id, is_retry)
    on_read = partial(_read, context, wanted, reply)
    read_at(context, hosted, place.offset, reply, on_read, is_committed=True)


def _read(
    context: RemotingContext,
    wanted: Wanted,
    reply: Reply,
    read: PartitionRead,
    error: PlatformError | None,
) -> None:
    if error is not None:
        reply.fail(error)
        return
    filtering = context.front.filtering
    slices = read_messages(wanted, read, filtering.left_out)
    filtering.read(wanted.offset, slices, partial(_tell, wanted, reply))


def _tell(wanted: Wanted, reply: Reply, found: Messages | PlatformError) -> None:
    if isinstance(found, PlatformError):
        reply.fail(found)
        return
    for encoded in found.encoded:
        (message,) = decode_messages(memoryview(encoded))
        if message.queue_offset == wanted.offset:
            reply(body=encoded, records=1, payload=len(encoded))
            return
    reply.fail(MessageGone(_GONE))
