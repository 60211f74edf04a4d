"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE: messages for one queue.

The answer comes when the set has confirmed them; it names the queue, the offset of the first one
and an offset id of each. What needs timers or transactions is refused: delays, half messages.

Source: RocketMQ `SendMessageProcessor`, `SendMessageRequestHeaderV2` (names of one letter).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.record.build import Record
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.fields import number, text
from penstock.remoting.gate import Found, find_topic, led_queue
from penstock.remoting.ids import locator_of, offset_id
from penstock.remoting.mapping import Mapped, to_record
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.sending import Sent
from penstock.remoting.system_names import UNIQ_KEY
from penstock.remoting.wire.batch_body import BatchedMessage, decode_batch
from penstock.remoting.wire.body_codec import plain_body
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import packed_host
from penstock.remoting.wire.properties import PROPERTIES_BYTES_MAX, read_properties

CODES: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)
_LONG_NAMES: Final = {
    "b": "topic",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "n": "bname",
}
ID_CHARS_MAX: Final = 255
"""Of a message's own id in an answer: Java's clients have 32. It is kept until the answer."""
_TRANSACTION_BITS: Final = 4 | 8
_DELAYS: Final = ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Append the messages. Raises what is told to the client."""
    if command.code == RequestCode.SEND_MESSAGE:
        command = _short(command)
    topic = find_topic(context, text(command, "b"), Operation.WRITE)
    found = led_queue(context, topic, command.fields.get("n"), number(command, "e"))
    if number(command, "f", 0) & _TRANSACTION_BITS:
        raise IllegalMessage("transactional messages are not supported yet")
    messages = _messages(command)
    records = [_record(context, command, found, one) for one in messages]
    first_id = read_properties(messages[0].properties).get(UNIQ_KEY, "")[:ID_CHARS_MAX]
    done = partial(_answer, context, reply, found, len(records), first_id)
    context.front.sending.add(found.hosted, Sent(records, done))


def _short(command: Command) -> Command:
    """Return a request with the short names of its fields."""
    fields = command.fields
    named = {short: fields[name] for short, name in _LONG_NAMES.items() if name in fields}
    return command._replace(fields=named)


def _messages(command: Command) -> Sequence[BatchedMessage]:
    if command.code == RequestCode.SEND_BATCH_MESSAGE or command.fields.get("m") == "true":
        messages = decode_batch(memoryview(command.body))
        if not messages:
            raise IllegalMessage("a batch without messages")
        return messages
    properties = command.fields.get("i", "")
    return [BatchedMessage(number(command, "h", 0), bytes(command.body), properties)]


def _record(
    context: RemotingContext, command: Command, found: Found, message: BatchedMessage
) -> Record:
    if len(message.properties.encode()) > PROPERTIES_BYTES_MAX:
        raise IllegalMessage(f"properties of more than {PROPERTIES_BYTES_MAX} bytes")
    properties = read_properties(message.properties)
    if any(name in properties for name in _DELAYS):
        raise IllegalMessage("delayed messages are not supported yet")
    bounds = found.hosted.topic.rules.bounds
    return to_record(
        Mapped(
            body=plain_body(bytes(message.body), number(command, "f", 0), bounds),
            properties=properties,
            flag=message.flag,
            born_ms=number(command, "g", context.broker.clock.wall_ms()),
            born_host=packed_host(context.host, 0),
            reconsume_times=max(number(command, "j", 0), 0),
        )
    )


def _answer(  # noqa: PLR0917  what an answer tells
    context: RemotingContext,
    reply: Reply,
    found: Found,
    count: int,
    first_id: str,
    outcome: int | PlatformError,
) -> None:
    if isinstance(outcome, PlatformError):
        reply.fail(outcome)
        return
    host, partition = context.front.own_host(), found.hosted.partition
    ids = (offset_id(host, locator_of(partition, outcome + n)) for n in range(count))
    reply(
        {
            "msgId": ",".join(ids),
            "queueId": str(found.queue.queue_id),
            "queueOffset": str(outcome),
            "transactionId": first_id,
        }
    )
