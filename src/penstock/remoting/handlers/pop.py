"""POP_MESSAGE, NOTIFICATION, POLLING_INFO: messages for a client that owns no queue.

    messages      SUCCESS, of one queue, with what a client makes its receipts of
    none          POLLING_TIMEOUT, after the wait
    no room       POLLING_FULL: too many wait, and there is none now

NOTIFICATION waits likewise, and tells whether there is a message. Queue -1 is any queue of the
broker that the client names. A message is invisible to others for as long as it asks; then it is
delivered again, and after so many times it is a dead letter.

Source: RocketMQ 5.3.3 `PopMessageProcessor`, `PopMessageRequestHeader`, `PollingInfoProcessor`.
Departure: pops that keep the order of a queue are refused.
"""

from collections.abc import Sequence
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.remoting.errors import MalformedBody
from penstock.remoting.fields import number, text
from penstock.remoting.filters.verdicts import MessageFilter
from penstock.remoting.gate import check, find_topic, led_queue
from penstock.remoting.pop.beginning import Begins
from penstock.remoting.pop.encoding import encoded
from penstock.remoting.pop.popping import Asked, Part, Peeking, Popped, Popping
from penstock.remoting.pop.pops import WAITING_MAX
from penstock.remoting.pop.receipts import number_of, offsets_info, start_info
from penstock.remoting.pop.serving import key_of, popped_topic, serve
from penstock.remoting.queues import Queue
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.subscription import is_by_tags, read_filter
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION, RequestCode.POLLING_INFO)
MESSAGES_MAX: Final = 32
"""RocketMQ refuses more."""
WAIT_MS_MAX: Final = 30_000
QUEUES_MAX: Final = 200
"""Queues that one pop looks at; another pop looks at those behind them."""
_FROM_END: Final = 1
_NO_FIELDS: Final = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "0"}
"""Java's client wants them in every answer."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Begin to look for messages. Raises what is told to the client."""
    if command.code == RequestCode.POLLING_INFO:
        find_topic(context, text(command, "topic"), Operation.READ)
        check(context, Operation.READ, Resource.GROUP, text(command, "consumerGroup"))
        reply({"pollingNum": str(context.front.desk.pops.waiting)})
        return
    group, name = text(command, "consumerGroup"), text(command, "topic")
    topic = popped_topic(context, group, name)
    if command.fields.get("order") == "true":
        raise MalformedBody("pops in order are not served: use a consumer that locks its queues")
    most_ms = context.broker.shares.config.lock_max_ms
    try:
        tags = _tags(context, command)
    except MalformedBody as error:
        reply(code=ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        return
    wait_ms = min(max(number(command, "pollTime", 0), 0), WAIT_MS_MAX)
    has_room = context.front.held.may_wait(context.connection)
    is_full = bool(wait_ms) and not (has_room and context.front.desk.pops.waiting < WAITING_MAX)
    member = context.front.members.client_of(group, context.connection) or context.host
    begins = Begins.END if number(command, "initMode", 0) == _FROM_END else Begins.START
    asked = Asked(
        group=group,
        member=member,
        topic=name,
        topic_id=bytes(topic.topic_id),
        messages_max=min(max(number(command, "maxMsgNums", MESSAGES_MAX), 1), MESSAGES_MAX),
        invisible_ms=min(max(number(command, "invisibleTime", 1), 1), most_ms),
        wait_ms=0 if is_full else wait_ms,
        begins=begins,
        filter=tags,
    )
    parts = _parts(context, command, group, name)
    is_peek = command.code == RequestCode.NOTIFICATION
    work = _peek if is_peek else _pop
    serve(context, "pop", reply, work(context, asked, parts, reply, is_full=is_full))


def _tags(context: RemotingContext, command: Command) -> MessageFilter:
    kind = command.fields.get("expType") or ""
    if not is_by_tags(kind):
        raise MalformedBody(f"pops filter by tags, not by {kind[:20]}")
    return read_filter(command.fields.get("exp") or "*", kind, context.front.compiled)


def _parts(context: RemotingContext, command: Command, group: str, name: str) -> Sequence[Part]:
    """Return the queues to look at, another one first each time."""
    topic = find_topic(context, name, Operation.READ)
    queue_id = number(command, "queueId", -1)
    first = led_queue(context, topic, command.fields.get("bname"), queue_id)
    if queue_id >= 0:
        return [Part(first.hosted, key_of(group, first.hosted), queue_id)]
    queues = context.front.queues_of(topic.topic_id, tuple(topic.placed))
    set_id = first.queue.set_id
    count = queues.counts()[set_id]
    begin = context.front.desk.pops.turn(count)
    parts = []
    for place in range(min(count, QUEUES_MAX)):
        queue = Queue(set_id, (begin + place) % count)
        partition = queues.partition(queue)
        hosted = None if partition is None else topic.find(partition)
        if hosted is not None:
            parts.append(Part(hosted, key_of(group, hosted), queue.queue_id))
    return parts


async def _pop(
    context: RemotingContext, asked: Asked, parts: Sequence[Part], reply: Reply, *, is_full: bool
) -> None:
    popped = await Popping(context.front.desk, context.connection, asked, parts).run()
    if popped is not None:
        _tell(context, asked, popped, reply)
    elif is_full:
        told = "too many pops wait for messages"
        reply(_NO_FIELDS, code=ResponseCode.POLLING_FULL, remark=told)
    else:
        reply(_NO_FIELDS, code=ResponseCode.POLLING_TIMEOUT, remark="there is no message")


async def _peek(
    context: RemotingContext, asked: Asked, parts: Sequence[Part], reply: Reply, *, is_full: bool
) -> None:
    found = await Peeking(context.front.desk, context.connection, asked, parts).run()
    has_some = found is not None
    told = {"hasMsg": has_some, "pollingFull": is_full and not has_some}
    reply({name: str(one).lower() for name, one in told.items()})


def _tell(context: RemotingContext, asked: Asked, popped: Popped, reply: Reply) -> None:
    part, host, offsets = popped.part, context.front.own_host(), popped.offsets
    popped.note(context.front.desk, asked.group)
    fields = {
        "popTime": str(context.broker.clock.wall_ms()),
        "invisibleTime": str(asked.invisible_ms),
        "reviveQid": str(number_of(part.key, popped.nonce)),
        "restNum": str(popped.left),
        "startOffsetInfo": start_info(part.queue_id, offsets[0]),
        "msgOffsetInfo": offsets_info(part.queue_id, offsets),
    }
    body = b"".join(encoded(one, count, part, host) for one, count in popped.messages)
    reply.about(part.hosted)
    reply(fields, body=body, remark="FOUND", records=len(offsets), payload=len(body))
