"""SendMessage: messages for one topic, which are answered when the set has confirmed them.

    NORMAL         the queue that the client names, if it is led here; else one after another
    FIFO           the partition that the message group falls on; else the next one that is led here
    DELAY          a partition as for NORMAL, when its time has come; the answer has its offset
                   among those that wait, and the handle by which it is recalled
    TRANSACTION    a partition as for NORMAL, when it is committed (methods/end_transaction.py); the
                   answer has its transaction id, and its number among half messages as its offset

A client chooses a node by a queue of its route, and the node chooses the partition, as RocketMQ's
proxy does: most clients do not tell the queue. So the messages of a group are in one partition as
long as their client stays with one node and that node leads what it leads.

A topic with a message type takes messages of that kind alone (`penstock.message.type`).

What has no place yet is refused by its kind: lite topics, priorities.

Source: RocketMQ's proxy `SendMessageActivity` (order of checks and their codes),
`GrpcValidator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.errors import InternalTopicRefused
from penstock.broker.metering import Kind
from penstock.configs.message_types import MIXED
from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.gate import find_topic, topic_name
from penstock.grpc.incoming import checked_records
from penstock.grpc.producing.delays import delay_properties, delivery_ms
from penstock.grpc.producing.transactions import half_of, half_properties
from penstock.grpc.proto.messages import (
    Message,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    Status,
    SystemProperties,
)
from penstock.grpc.statuses import Code, MessageType
from penstock.protobuf.codec import decode
from penstock.remoting.recall.handle import Handle
from penstock.remoting.sending import Sent
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition, HostedTopic

MESSAGES_MAX: Final = 128
"""Of one request."""
_ALONE: Final = frozenset({MessageType.DELAY, MessageType.TRANSACTION})
_OK: Final = Status(code=Code.OK, message="OK")


def _handle(call: Call, message: bytes) -> None:
    messages = decode(SendMessageRequest, message).messages
    if not 0 < len(messages) <= MESSAGES_MAX:
        raise Refused(Code.BAD_REQUEST, f"a request has 1 to {MESSAGES_MAX} messages")
    names = {topic_name(one.topic) for one in messages}
    if len(names) > 1:
        raise Refused(Code.BAD_REQUEST, "the messages of a request are for one topic")
    topic = find_topic(call.client, names.pop(), Operation.WRITE)
    if topic.internal:
        raise InternalTopicRefused
    kinds = {kind_of(one) for one in messages}
    groups = {one.system_properties.message_group for one in messages if one.system_properties}
    if len(kinds) > 1 or len(groups) > 1:
        raise Refused(Code.BAD_REQUEST, "the messages of a request are of one kind and group")
    (kind,) = kinds
    _check_type(topic.settings.message_type, kind)
    if kind in _ALONE and len(messages) > 1:
        raise Refused(Code.BAD_REQUEST, "a request has one delayed or transactional message")
    if kind is MessageType.TRANSACTION:
        _send_half(call, topic, messages)
    elif kind is MessageType.DELAY:
        _send_late(call, topic, messages)
    else:
        records = checked_records(call.client, messages, topic.rules.max_message_bytes)
        hosted = _partition(call, topic, messages[0])
        _note(call, hosted, messages)
        ids = [_system(one).message_id for one in messages]
        call.client.front.sending.add(hosted, Sent(records, partial(_answer, call, ids)))


def _check_type(expected: str, kind: MessageType) -> None:
    """Check that a topic takes messages of a kind. Raises Refused, with RocketMQ's text."""
    if expected not in {MIXED, kind.name}:
        raise Refused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"TopicMessageType validate failed, the expected type is {expected}, but actual type"
            f" is {kind.name}",
        )


def _send_half(call: Call, topic: HostedTopic, messages: Sequence[Message]) -> None:
    """Take a half message."""
    system = _system(messages[0])
    added = half_properties(topic.name, system)
    size_max = topic.rules.max_message_bytes
    (record,) = checked_records(call.client, messages, size_max, added)
    hosted = _partition(call, topic, messages[0])
    _note(call, hosted, messages)
    halves = call.client.front.keeping.halves
    done = partial(_answer_half, call, hosted, system.message_id)
    halves.send(hosted, half_of(halves, hosted, added), record, done)


def _send_late(call: Call, topic: HostedTopic, messages: Sequence[Message]) -> None:
    """Take a message that is to be there later."""
    system, client = _system(messages[0]), call.client
    now_ms, most_ms = client.broker.clock.wall_ms(), client.front.delay_ms_max
    until_ms = delivery_ms(system.delivery_timestamp, now_ms, most_ms)
    size_max = topic.rules.max_message_bytes
    (record,) = checked_records(call.client, messages, size_max, delay_properties(until_ms))
    hosted = _partition(call, topic, messages[0])
    _note(call, hosted, messages)
    handle = Handle(topic.name, hosted.member.replica_set_id, until_ms, system.message_id)
    told = handle if until_ms > now_ms else None
    done = partial(_answer_late, call, system.message_id, told)
    call.client.front.keeping.holding.hold_until(hosted, until_ms, record, done)


def _note(call: Call, hosted: HostedPartition, messages: Sequence[Message]) -> None:
    call.about(hosted, records=len(messages), payload=sum(len(one.body) for one in messages))


def _system(message: Message) -> SystemProperties:
    return message.system_properties or SystemProperties()


def kind_of(message: Message) -> MessageType:
    """Return the kind of a message. Raises Refused for those that have no place."""
    system = _system(message)
    kind = system.message_type
    if system.lite_topic is not None or kind == MessageType.LITE:
        raise Refused(Code.UNSUPPORTED, "lite topics are not supported by this server")
    if system.priority is not None or kind == MessageType.PRIORITY:
        raise Refused(Code.UNSUPPORTED, "priorities are not supported by this server")
    if kind > MessageType.PRIORITY or kind < 0:
        raise Refused(Code.UNSUPPORTED, f"messages of the kind {kind} are not known")
    has_time = system.delivery_timestamp is not None
    if kind in _ALONE or has_time:
        is_half = kind == MessageType.TRANSACTION
        if system.message_group is not None or (is_half and has_time):
            told = "of transaction, delivery timestamp and message group a message has one"
            raise Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, told)
        return MessageType.TRANSACTION if is_half else MessageType.DELAY
    if system.message_group is not None:
        return MessageType.FIFO
    if kind == MessageType.FIFO:
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, "a FIFO message has a message group")
    return MessageType.NORMAL


def _partition(call: Call, topic: HostedTopic, message: Message) -> HostedPartition:
    """Return the partition of a message. Raises NotMaster."""
    system = _system(message)
    if system.message_group is not None:
        first = crc32(system.message_group.encode())
    else:
        first = system.queue_id if system.queue_id > 0 else next(call.client.front.turns)
    count = len(topic.partitions)
    for at in range(first, first + count):
        hosted = topic.find(at % count)
        if hosted is not None and _is_led(hosted):
            return hosted
    raise NotMaster(f"no partition of {topic.name} is led here: ask for its route again")


def _is_led(hosted: HostedPartition) -> bool:
    try:
        hosted.check_still_led()
    except PlatformError:
        return False
    return True


def _answer(call: Call, ids: Sequence[str], outcome: int | PlatformError) -> None:
    if isinstance(outcome, PlatformError):
        call.fail(outcome)
        return
    entries = [
        SendResultEntry(status=_OK, message_id=one, transaction_id=one, offset=outcome + at)
        for at, one in enumerate(ids)
    ]
    call.reply(SendMessageResponse(status=_OK, entries=entries))


def _answer_late(
    call: Call, message_id: str, handle: Handle | None, outcome: int | PlatformError
) -> None:
    if isinstance(outcome, PlatformError):
        call.fail(outcome)
        return
    entry = SendResultEntry(
        status=_OK,
        message_id=message_id,
        transaction_id=message_id,
        offset=outcome,
        recall_handle="" if handle is None else call.client.front.keeping.recalls.handle(handle),
    )
    call.reply(SendMessageResponse(status=_OK, entries=[entry]))


def _answer_half(
    call: Call, hosted: HostedPartition, message_id: str, outcome: int | PlatformError
) -> None:
    if isinstance(outcome, PlatformError):
        call.fail(outcome)
        return
    told = call.client.front.keeping.halves.transaction_id(hosted.member.replica_set_id, outcome)
    entry = SendResultEntry(status=_OK, message_id=message_id, transaction_id=told, offset=outcome)
    call.reply(SendMessageResponse(status=_OK, entries=[entry]))


METHOD: Final = Method("SendMessage", _handle, Kind.SEND)
