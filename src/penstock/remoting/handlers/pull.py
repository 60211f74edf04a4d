"""PULL_MESSAGE, LITE_PULL_MESSAGE: messages of one queue, from an offset on; it may wait for them.

    records      SUCCESS, the messages, and the offset for the next pull
    none         PULL_NOT_FOUND, after the wait
    none wanted  PULL_RETRY_IMMEDIATELY: the filter wants nothing of what was read
    out of range PULL_OFFSET_MOVED, with the nearest offset that there is

What is wanted is said by the pull or by the last heartbeat (filters/wanted.py); without either it
is refused. Reads to the last stable offset. Source: RocketMQ `PullMessageProcessor`, `PullSysFlag`,
`PullMessageResponseHeader`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.broker.tier.reach import told_first_offset
from penstock.remoting.errors import MalformedBody
from penstock.remoting.fields import number, text
from penstock.remoting.filters.filtering import Messages
from penstock.remoting.filters.wanted import wanted_by
from penstock.remoting.gate import check, find_topic, led_queue
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.positions import commit, is_here
from penstock.remoting.reading import Wanted, read_messages
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.storage.errors import OffsetOutOfRange

CODES: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
COMMITS, MAY_WAIT = 1, 2
WAIT_MS_MAX: Final = 30_000
MESSAGES_MAX: Final = 1_024
READ_BYTES_MAX: Final = 256 << 10
"""Of batches; a single one may be larger."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Read now, or when there are messages. Raises what is told to the client."""
    topic_name, group = text(command, "topic"), text(command, "consumerGroup")
    topic = find_topic(context, topic_name, Operation.READ)
    check(context, Operation.READ, Resource.GROUP, group)
    found = led_queue(context, topic, command.fields.get("bname"), number(command, "queueId"))
    sys_flag = number(command, "sysFlag", 0)
    try:
        wanted_messages = wanted_by(context, command, group, topic_name)
    except MalformedBody as error:
        reply(code=ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        return
    offset = number(command, "queueOffset")
    if sys_flag & COMMITS and is_here(context.broker, group):
        offset = number(command, "commitOffset", 0)
        commit(context.front.desk, group, found.hosted, offset, _nothing)
    key = (topic_name.encode(), found.hosted.partition)
    part = WantedPartition(key, max(offset, 0), READ_BYTES_MAX)
    most = min(max(number(command, "maxMsgNums", 32), 1), MESSAGES_MAX)
    host, is_retry = context.front.own_host(), retry_group(topic_name) is not None
    kept = context.front.desk.kept
    wanted = Wanted(
        topic_name, found, offset, most, wanted_messages, host, topic.topic_id, kept, is_retry
    )
    operation = FetchOperation(
        context.broker,
        [PartitionRead(part, found.hosted)],
        min_bytes=1,
        max_bytes=READ_BYTES_MAX,
        on_done=partial(_answer, context, wanted, reply),
        consumer=Consumer(
            room=context.connection,
            turn=partial(context.broker.look_ups.ask, context.connection),
            is_committed=True,
        ),
    )
    may_wait = sys_flag & MAY_WAIT and context.front.held.may_wait(context.connection)
    wait_ms = number(command, "suspendTimeoutMillis", 0) if may_wait else 0
    operation.on_end = reply.end
    operation.start(min(max(wait_ms, 0), WAIT_MS_MAX))


def _answer(
    context: RemotingContext, wanted: Wanted, reply: Reply, reads: list[PartitionRead]
) -> None:
    (read,) = reads
    error = read.error
    if isinstance(error, OffsetOutOfRange):
        start, end = _start(context, wanted), read.high_watermark
        moved = start if wanted.offset < start else max(end, start)
        told = _offsets(start, moved, end)
        reply(told, code=ResponseCode.PULL_OFFSET_MOVED, remark="the offset is out of range")
        return
    if error is not None:
        reply.fail(error)
        return
    reply.begin()
    filtering = context.front.filtering
    slices = read_messages(wanted, read, filtering.left_out)
    bounds = _start(context, wanted), read.stable_offset
    filtering.read(wanted.offset, slices, partial(_tell, wanted, reply, bounds))


def _start(context: RemotingContext, wanted: Wanted) -> int:
    return told_first_offset(wanted.found.hosted, context.broker.tier)


def _tell(
    wanted: Wanted, reply: Reply, bounds: tuple[int, int], found: Messages | PlatformError
) -> None:
    start, end = bounds
    if isinstance(found, PlatformError):
        reply.fail(found)
        return
    told = _offsets(start, found.next_offset, end)
    if found.encoded:
        body = b"".join(found.encoded)
        reply(told, body=body, remark="FOUND", records=len(found.encoded), payload=len(body))
    elif found.next_offset > wanted.offset:
        reply(told, code=ResponseCode.PULL_RETRY_IMMEDIATELY, remark="no message is wanted")
    else:
        reply(told, code=ResponseCode.PULL_NOT_FOUND, remark="there is no message yet")


def _offsets(start: int, following: int, end: int) -> Mapping[str, str]:
    return {
        "nextBeginOffset": str(following),
        "minOffset": str(start),
        "maxOffset": str(max(end, start)),
        "suggestWhichBrokerId": "0",
    }


def _nothing(error: PlatformError | None) -> None:
    """A pull tells of its position by the way; that it could not be kept is told to nobody.

    Where another broker coordinates the group it is not passed on: clients commit every 5 s, too.
    """
