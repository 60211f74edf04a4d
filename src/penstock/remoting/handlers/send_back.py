"""CONSUMER_SEND_MSG_BACK: what a group could not consume comes again, or is a dead letter.

    message read by its locator ─► times consumed, level ─► %RETRY%group after a delay
                                                        └─► %DLQ%group      (later/retries.py)

Answered when that is confirmed, so nothing is lost with its client. A client that gets no answer,
or an error, sends the message to the retry topic as a producer does (send.py).

Source: RocketMQ `AbstractSendMessageProcessor.consumerSendMsgBack`,
`ConsumerSendMsgBackRequestHeader`. Departure: the message is looked for by partition and offset,
and has to have the id that the client tells.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.append.append import partition_of
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.partitions import HostedPartition
from penstock.record.build import Record
from penstock.record.read import iter_batches, iter_records
from penstock.remoting.errors import MessageGone
from penstock.remoting.fields import number, text
from penstock.remoting.gate import check, find_topic
from penstock.remoting.handlers.at_place import read_at
from penstock.remoting.ids import derived_id, located
from penstock.remoting.later.group_topics import RETRY
from penstock.remoting.later.resending import Resend, resend
from penstock.remoting.later.retries import Failed
from penstock.remoting.mapping import Mapped, to_message
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.system_names import UNIQ_KEY
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

CODES: Final = (RequestCode.CONSUMER_SEND_MSG_BACK,)


class _Asked(NamedTuple):
    """What a client asks for."""

    group: str
    topic: str
    message_id: str
    locator: int
    times_max: int
    level: int


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Read the message, and append it elsewhere. Raises what is told to the client."""
    asked = _Asked(
        group=text(command, "group"),
        topic=command.fields.get("originTopic", ""),
        message_id=command.fields.get("originMsgId", ""),
        locator=number(command, "offset"),
        times_max=number(command, "maxReconsumeTimes", -1),
        level=number(command, "delayLevel", 0),
    )
    check(context, Operation.READ, Resource.GROUP, asked.group)
    place = located(asked.locator)
    if place is None:
        raise MessageGone(f"{asked.locator} is no place of a message")
    topic_name = RETRY + asked.group if place.is_retry else asked.topic
    hosted = partition_of(find_topic(context, topic_name, Operation.READ), place.partition)
    hosted.check_still_led()
    told = partial(_on_excerpt, context, asked, reply)
    read_at(context, hosted, place.offset, reply, told, is_committed=False)


def _on_excerpt(
    context: RemotingContext,
    asked: _Asked,
    reply: Reply,
    read: PartitionRead,
    why_not: PlatformError | None,
) -> None:
    hosted = read.hosted
    assert hosted is not None, "it was read"
    try:
        if why_not is not None:
            raise why_not
        record = _record(read.buffers, read.wanted.fetch_offset)
        message = _checked(hosted, asked, record, read.wanted.fetch_offset)
    except PlatformError as error:
        reply.fail(error)
        return
    failed = Failed(
        topic=asked.topic,
        message_id=message.properties.get(UNIQ_KEY, ""),
        times=message.reconsume_times,
        times_max=asked.times_max,
        level=asked.level,
    )
    one = Resend(asked.group, hosted.member.replica_set_id, record, failed)
    resend(context, one, partial(_answer, reply))


def _answer(reply: Reply, outcome: int | PlatformError) -> None:
    if isinstance(outcome, PlatformError):
        reply.fail(outcome)
    else:
        reply()


def _record(buffers: Sequence[memoryview], offset: int) -> Record:
    """Return the record at an offset. Raises MessageGone, RecordError kinds."""
    for header, batch in iter_batches(memoryview(b"".join(buffers))):
        for one in () if header.is_control else iter_records(batch):
            if one.offset == offset:
                return Record(one.key, one.value, one.headers, one.timestamp_ms)
    raise MessageGone("the message is not there any more")


def _checked(hosted: HostedPartition, asked: _Asked, record: Record, offset: int) -> Mapped:
    """Return the message, which has to be the one that the client means. Raises MessageGone."""
    message = to_message(record, derived_id(hosted.topic.topic_id, hosted.partition, offset))
    shown = message.properties.get(UNIQ_KEY, "")
    is_by_place = asked.message_id.upper().endswith(f"{asked.locator:016X}")
    if shown and asked.message_id not in {"", shown} and not is_by_place:
        raise MessageGone("another message is there by now")
    return message
