"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE: messages for one queue.

Bodies are read by sent_messages.py. The answer comes when the set has confirmed them; it names the
queue, the offset of the first one and an offset id of each. A message with a delay level waits for
its time first (later/holding.py), one with a time of its own, too (later/timers.py); the answer has
its offset among those that wait, an id that names no place, and of the second the handle by which
it is recalled (handlers/recall.py). A half message of a transaction
waits for its decision (halves/halves.py); the answer has its number, and an id that END_TRANSACTION
is to name.

A consumer that can not send a message back sends it to its retry topic: once it was consumed as
often as its group may, it is a dead letter instead, whatever queue it names.

Source: RocketMQ `SendMessageProcessor`, `SendMessageRequestHeaderV2` (names of one letter).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.remoting.config import LISTENER_NAME
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.fields import number, text
from penstock.remoting.gate import Found, find_topic, led_queue
from penstock.remoting.halves.sending import half_of, is_half
from penstock.remoting.handlers.sent_messages import (
    ReadMessages,
    SentBody,
    few_messages,
    many_messages,
)
from penstock.remoting.ids import NOT_ADDRESSABLE, locator_of, offset_ids
from penstock.remoting.later.delayed import level_of
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.later.resending import Resend, resend
from penstock.remoting.later.retries import TIMES_MAX, Failed
from penstock.remoting.later.timers import until_ms
from penstock.remoting.pop.serving import ended, serve
from penstock.remoting.recall.handle import Handle
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.sending import Sent
from penstock.remoting.system_names import UNIQ_KEY
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import packed_host

CODES: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)
_LONG_NAMES: Final = {
    "a": "producerGroup",
    "b": "topic",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "l": "maxReconsumeTimes",
    "n": "bname",
}
ID_CHARS_MAX: Final = 255
"""Of a message's own id in an answer: Java's clients have 32. It is kept until the answer."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Append the messages, at once or after work that takes turns. Raises what is told."""
    if command.code == RequestCode.SEND_MESSAGE:
        command = _short(command)
    topic = find_topic(context, text(command, "b"), Operation.WRITE)
    found = led_queue(context, topic, command.fields.get("n"), number(command, "e"))
    sent = _sent(context, command, found)
    few = few_messages(sent)
    if few is not None:
        _store(context, command, reply, found, few)
        return
    kept = sent._replace(body=bytes(sent.body))  # the receive buffer is another request's by then
    command = command._replace(body=b"")

    async def work() -> None:
        turns = context.broker.stats.turns_of(LISTENER_NAME, RequestCode(command.code).name)
        many = await many_messages(context.broker, kept, turns)
        _store(context, command, reply, found, many)

    def begin(over: Callable[[], None]) -> None:
        serve(context, "send", reply, ended(work(), over))

    context.front.unpacking.ask(context.connection, begin, reply.end)


def _sent(context: RemotingContext, command: Command, found: Found) -> SentBody:
    """Return what is to be read of a request."""
    is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE or command.fields.get("m") == "true"
    return SentBody(
        body=command.body,
        sys_flag=number(command, "f", 0),
        properties=None if is_batch else command.fields.get("i", ""),
        flag=number(command, "h", 0),
        born_ms=number(command, "g", context.broker.clock.wall_ms()),
        born_host=packed_host(context.host, 0),
        times=max(number(command, "j", 0), 0),
        rules=found.hosted.topic.rules,
    )


def _store(
    context: RemotingContext,
    command: Command,
    reply: Reply,
    found: Found,
    read: ReadMessages,
) -> None:
    """Append messages. Raises what is told to the client."""
    records, first = read.records, read.first
    failed = _failed(command, first)
    is_first_half = is_half(number(command, "f", 0), first)
    if len(records) > 1 and (failed is not None or is_first_half or read.is_special):
        raise IllegalMessage(
            "a batch is neither delayed nor of a transaction: send its messages one by one"
        )
    level, until = _later(context, first)
    is_elsewhere = failed is not None or bool(level or until) or is_first_half
    first_id = first.get(UNIQ_KEY, "")[:ID_CHARS_MAX]
    recalls = _handle(command, found, until, first.get(UNIQ_KEY, ""))
    answered = _Answered(found, len(records), read.payload, first_id, is_elsewhere, recalls)
    done = partial(_answer, context, reply, answered)
    if is_first_half:
        half = half_of(context, command, found, first)
        context.front.halves.send(found.hosted, half, records[0], partial(done, is_half=True))
    elif failed is not None:
        group, times = failed
        resend(context, Resend(group, found.queue.set_id, records[0], times), done)
    elif level:
        context.front.holding.hold(found.hosted, level, records[0], done)
    elif until:
        context.front.holding.hold_until(found.hosted, until, records[0], done)
    else:
        context.front.sending.add(found.hosted, Sent(records, done, read.size_max))


def _later(context: RemotingContext, properties: Mapping[str, str]) -> tuple[int, int]:
    """Return the level of a message, or when it is to be delivered; 0: it has none."""
    level = level_of(properties)
    if level:
        return level, 0
    front = context.front
    return 0, until_ms(properties, front.broker.clock.wall_ms(), front.delay_ms_max)


def _handle(command: Command, found: Found, until: int, message_id: str) -> Handle | None:
    """Return by what a message is recalled that waits until a time; None if it can not be."""
    topic = text(command, "b")
    if not until or retry_group(topic) is not None or len(message_id) > ID_CHARS_MAX:
        return None
    return Handle(topic, found.queue.set_id, until, message_id)


def _failed(command: Command, properties: Mapping[str, str]) -> tuple[str, Failed] | None:
    """Return what has become a dead letter on its way to a retry topic, and its group.

    Consumers that keep the order of queues send what they give up in this way, too.
    """
    group = retry_group(text(command, "b"))
    times, told_max = number(command, "j", 0), number(command, "l", -1)
    if group is None or times < (TIMES_MAX if told_max < 0 else told_max):
        return None
    message_id = properties.get(UNIQ_KEY, "")
    topic = properties.get("RETRY_TOPIC", "")
    return group, Failed(topic, message_id, times - 1, told_max, level=-1)


def _short(command: Command) -> Command:
    """Return a request with the short names of its fields."""
    fields = command.fields
    named = {short: fields[name] for short, name in _LONG_NAMES.items() if name in fields}
    return command._replace(fields=named)


class _Answered(NamedTuple):
    """What an answer tells beside the outcome."""

    found: Found
    messages: int
    size: int
    """Of their bodies, as they were sent."""
    first_id: str
    is_elsewhere: bool
    """Whether the message is in no queue yet, or in another one."""
    handle: Handle | None
    """By which it is recalled, where it waits for a time of its own."""

    def locator(self, offset: int) -> int:
        """Return the locator of a message of the answer."""
        if self.is_elsewhere:
            return NOT_ADDRESSABLE
        return locator_of(self.found.hosted.partition, offset)


def _answer(
    context: RemotingContext,
    reply: Reply,
    answered: _Answered,
    outcome: int | PlatformError,
    *,
    is_half: bool = False,
) -> None:
    if isinstance(outcome, PlatformError):
        reply.fail(outcome)
        return
    host = context.front.own_host()
    offsets = range(outcome, outcome + answered.messages)
    locators = [answered.locator(one) for one in offsets]
    if is_half:
        locators = [context.front.halves.locator(answered.found.queue.set_id, outcome)]
    fields = {
        "msgId": offset_ids(host, locators),
        "queueId": str(answered.found.queue.queue_id),
        "queueOffset": str(outcome),
        "transactionId": answered.first_id,
    }
    recalls = answered.handle and context.front.keeping.recalls.handle(answered.handle)
    if recalls:
        fields["recallHandle"] = recalls
    reply(
        fields,
        records=answered.messages,
        payload=answered.size,
    )
