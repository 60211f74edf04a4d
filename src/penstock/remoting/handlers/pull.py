"""PULL_MESSAGE, LITE_PULL_MESSAGE: messages of one queue, from an offset on; it may wait for them.

    records      SUCCESS, the messages, and the offset for the next pull
    none         PULL_NOT_FOUND, after the wait
    none wanted  it waits on behind them (filters/waiting.py); PULL_RETRY_IMMEDIATELY in the end,
                 and where there is more to be read, or it may not wait
    out of range PULL_OFFSET_MOVED, with the nearest offset that there is

What is wanted is said by the pull or by the last heartbeat (filters/wanted.py); without either it
is refused. Reads to the last stable offset. Source: RocketMQ `PullMessageProcessor`, `PullSysFlag`,
`PullMessageResponseHeader`.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.broker.tier.reach import told_first_offset
from penstock.record.excerpt import Part
from penstock.remoting.errors import MalformedBody
from penstock.remoting.fields import number, text
from penstock.remoting.filters.filtering import Messages
from penstock.remoting.filters.waiting import (
    TAIL_RECORDS,
    FilteredWait,
    Looked,
    ToRead,
    WaitingPull,
)
from penstock.remoting.filters.wanted import wanted_by
from penstock.remoting.gate import check, find_topic, led_queue
from penstock.remoting.later.group_topics import retry_group
from penstock.remoting.positions import commit, is_here
from penstock.remoting.reading import Wanted, read_messages
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.subscription import EVERYTHING
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.storage.errors import OffsetOutOfRange

CODES: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
COMMITS, MAY_WAIT = 1, 2
WAIT_MS_MAX: Final = 30_000
MESSAGES_MAX: Final = 1_024
READ_BYTES_MAX: Final = 256 << 10
"""Of batches; a single one may be larger."""
EXCERPT_BYTES: Final = 512 << 10
"""Of their records, unpacked, that one pull looks at; a single one may be larger."""
LOOKED_MAX: Final = 10_000
"""Of their records, where a filter chooses among them."""


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
    moved = context.front.resets.take(group, found.hosted)
    if moved is not None:
        told = "the group has been reset"
        moved_to = _offsets(told_first_offset(found.hosted, context.broker.tier), moved, moved)
        reply(moved_to, code=ResponseCode.PULL_OFFSET_MOVED, remark=told)
        return
    if sys_flag & COMMITS and is_here(context.broker, group):
        position = number(command, "commitOffset", 0)
        commit(context.front.desk, group, found.hosted, position, _nothing)
    most = min(max(number(command, "maxMsgNums", 32), 1), MESSAGES_MAX)
    host, is_retry = context.front.own_host(), retry_group(topic_name) is not None
    wanted = Wanted(
        topic_name, found, offset, most, wanted_messages, host, topic.topic_id, is_retry
    )
    may_wait = sys_flag & MAY_WAIT and context.front.held.may_wait(context.connection)
    wait_ms = number(command, "suspendTimeoutMillis", 0) if may_wait else 0
    until_ms = context.broker.clock.monotonic_ms() + min(max(wait_ms, 0), WAIT_MS_MAX)
    pull = _Pull(context, wanted, reply, until_ms)
    if pull.is_filtered and pull.wait_ms and context.front.waits.knows(found.hosted, offset):
        pull.wait(offset)
    else:
        pull.read(ToRead(offset))


class _Pull(NamedTuple):
    """A pull until it is answered."""

    context: RemotingContext
    wanted: Wanted
    reply: Reply
    until_ms: int
    """By the monotonic clock: for how long it may wait."""

    @property
    def is_filtered(self) -> bool:
        """Whether there may be messages that it does not want."""
        return self.wanted.filter is not EVERYTHING

    @property
    def wait_ms(self) -> int:
        """For how long it may still wait."""
        return max(0, self.until_ms - self.context.broker.clock.monotonic_ms())

    def read(self, what: ToRead) -> None:
        """Read that, now or when there is something."""
        context, hosted = self.context, self.wanted.found.hosted
        key = (self.wanted.topic.encode(), hosted.partition)
        most = 1 if what.is_one else READ_BYTES_MAX  # a batch is read whole
        operation = FetchOperation(
            context.broker,
            [PartitionRead(WantedPartition(key, max(what.offset, 0), most), hosted)],
            min_bytes=1,
            max_bytes=most,
            on_done=partial(_answer, self, what),
            consumer=Consumer(
                room=context.connection,
                turn=partial(context.broker.look_ups.ask, context.connection),
                is_committed=True,
            ),
        )
        operation.on_end = partial(self._on_end, what)
        operation.start(self.wait_ms)

    def _on_end(self, what: ToRead) -> None:
        """The read is over, and goes on to be an answer where its client is there."""
        self.reply.end()
        if self.context.connection.is_closed:
            self.over(what)

    def over(self, what: ToRead) -> None:
        """Let others look who wait for what this one reads."""
        if what.tail is not None:
            self.context.front.waits.read_over(what.tail)

    def gone(self, what: ToRead) -> None:
        """Its client has gone meanwhile."""
        self.reply.end()
        self.over(what)

    def fail(self, what: ToRead, error: PlatformError) -> None:
        """Answer with an error."""
        self.reply.fail(error)
        self.over(what)

    def wait(self, offset: int) -> None:
        """Wait behind what it does not want."""
        wanted, connection = self.wanted, self.context.connection
        pull = WaitingPull(self.read, self.tell, lambda: connection.is_closed, self.reply.end)
        waits = self.context.front.waits
        FilteredWait(waits, wanted.found.hosted, wanted.filter, offset, pull).begin(self.wait_ms)

    def tell(self, offset: int) -> None:
        """Say that nothing is wanted up to there."""
        told = _offsets(_start(self.context, self.wanted), offset, offset)
        if offset > self.wanted.offset:
            code, remark = ResponseCode.PULL_RETRY_IMMEDIATELY, "no message is wanted"
        else:
            code, remark = ResponseCode.PULL_NOT_FOUND, "there is no message yet"
        self.reply(told, code=code, remark=remark)


def _answer(pull: _Pull, what: ToRead, reads: list[PartitionRead]) -> None:
    (read,) = reads
    error, offset = read.error, what.offset
    if isinstance(error, OffsetOutOfRange):
        start, end = _start(pull.context, pull.wanted), read.high_watermark
        moved = start if offset < start else max(end, start)
        told = _offsets(start, moved, end)
        pull.reply(told, code=ResponseCode.PULL_OFFSET_MOVED, remark="the offset is out of range")
        pull.over(what)
        return
    if error is not None:
        pull.fail(what, error)
        return
    pull.reply.begin()
    most = LOOKED_MAX if pull.is_filtered else pull.wanted.messages_max
    part = Part(offset, EXCERPT_BYTES, 1 if what.is_one else most)
    made = partial(_read, pull, what, read)
    context, gone = pull.context, partial(pull.gone, what)
    context.front.desk.excerpts.make(read, part, context.connection, made, gone)


def _read(pull: _Pull, what: ToRead, read: PartitionRead, error: PlatformError | None) -> None:
    if error is not None:
        pull.fail(what, error)
        return
    front, wanted = pull.context.front, pull.wanted._replace(offset=what.offset)
    tail = front.waits.tail(wanted.found.hosted) if pull.is_filtered else None
    looked: deque[Looked] | None = None if tail is None else deque(maxlen=TAIL_RECORDS)
    slices = read_messages(wanted, read, front.filtering.left_out, looked)
    front.filtering.read(what.offset, slices, partial(_tell, pull, what, read, looked))


def _start(context: RemotingContext, wanted: Wanted) -> int:
    return told_first_offset(wanted.found.hosted, context.broker.tier)


def _tell(
    pull: _Pull,
    what: ToRead,
    read: PartitionRead,
    looked: deque[Looked] | None,
    found: Messages | PlatformError,
) -> None:
    if isinstance(found, PlatformError):
        pull.fail(what, found)
        return
    waits, following = pull.context.front.waits, found.next_offset
    tail = waits.tail(pull.wanted.found.hosted)
    if tail is not None and looked is not None:
        tail.add(what.offset, looked, following)
    if found.encoded:
        told = _offsets(_start(pull.context, pull.wanted), following, read.stable_offset)
        body = b"".join(found.encoded)
        pull.reply(told, body=body, remark="FOUND", records=len(found.encoded), payload=len(body))
    elif pull.is_filtered and pull.wait_ms and following >= read.stable_offset:
        pull.wait(following)
    else:
        pull.tell(following)
    pull.over(what)


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
