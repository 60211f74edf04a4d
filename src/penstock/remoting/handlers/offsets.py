"""Offsets of a queue, and a group's position in it.

    QUERY_CONSUMER_OFFSET    the position; a group without one gets 0 if the queue has all its
                             messages yet and the client does not forbid it, else QUERY_NOT_FOUND
    UPDATE_CONSUMER_OFFSET   keeps a position; mostly one-way
    GET_MAX_OFFSET           end of what is confirmed; refused by a new master that does not know
                             yet what earlier ones have confirmed: the end never goes back
    GET_MIN_OFFSET           first that is kept

Source: RocketMQ `ConsumerManageProcessor`, `AdminBrokerProcessor`.
"""

from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.broker.access import Operation, Resource
from penstock.broker.fetch.watermarks import find_high_watermark, knows_the_end
from penstock.broker.tier.reach import known_first_offset
from penstock.remoting.fields import number, text
from penstock.remoting.gate import Found, check, find_topic, led_queue
from penstock.remoting.positions import Done, commit, find
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.replication.errors import NotMaster

CODES: Final = (
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
)


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory, or once the position is durable. Raises what is told to the client."""
    match command.code:
        case RequestCode.QUERY_CONSUMER_OFFSET:
            found, group = _of_group(context, command)
            _query(context, command, reply, found, group)
        case RequestCode.UPDATE_CONSUMER_OFFSET:
            found, group = _of_group(context, command)
            offset = number(command, "commitOffset")
            if context.front.resets.is_marked(group, found.hosted):
                reply(remark="the group has been reset, and this is where it was before")
                return
            commit(context.front.desk, group, found.hosted, offset, _committed(reply))
        case RequestCode.GET_MAX_OFFSET:
            _tell_end(_queue(context, command, Operation.DESCRIBE), reply)
        case _:
            found = _queue(context, command, Operation.DESCRIBE)
            reply({"offset": str(known_first_offset(found.hosted, context.broker.tier))})


def _queue(context: RemotingContext, command: Command, operation: Operation) -> Found:
    topic = find_topic(context, text(command, "topic"), operation)
    found = led_queue(context, topic, command.fields.get("bname"), number(command, "queueId"))
    found.hosted.member.check_readable()
    return found


def _of_group(context: RemotingContext, command: Command) -> tuple[Found, str]:
    group = text(command, "consumerGroup")
    check(context, Operation.READ, Resource.GROUP, group)
    return _queue(context, command, Operation.READ), group


def _query(
    context: RemotingContext, command: Command, reply: Reply, found: Found, group: str
) -> None:
    may_be_zero = command.fields.get("setZeroIfNotFound") != "false"
    hosted = found.hosted
    is_whole = known_first_offset(hosted, context.broker.tier) == 0 < hosted.log.log_end_offset
    told = partial(_tell_position, reply, is_whole and may_be_zero)
    find(context.front.desk, group, hosted, told)


def _tell_position(
    reply: Reply, may_be_zero: bool, position: int | None, error: PlatformError | None
) -> None:
    if error is not None:
        reply.fail(error)
        return
    if position is None and may_be_zero:
        position = 0
    if position is None:
        reply(code=ResponseCode.QUERY_NOT_FOUND, remark="the group has no position in this queue")
    else:
        reply({"offset": str(position)})


def _committed(reply: Reply) -> Done:
    def done(error: PlatformError | None) -> None:
        if error is None:
            reply()
        else:
            reply.fail(error)

    return done


def _tell_end(found: Found, reply: Reply) -> None:
    if not knows_the_end(found.hosted):
        raise NotMaster("the end of the queue is not known yet")

    def told(end: Offset | None, error: PlatformError | None) -> None:
        if error is not None:
            reply.fail(error)
        else:
            reply({"offset": str(end)})

    find_high_watermark(found.hosted, told)
