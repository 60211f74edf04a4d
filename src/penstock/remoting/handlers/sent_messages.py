"""The messages of a send as records: read at once where that is little work, else in turns.

    a message as it is; a small one that is compressed; a small batch    few_messages, on the loop
    other batches          decoded, and made records, a slice in a turn  many_messages
    other compressed ones  unpacked by a worker                          many_messages

A batch of 40 KB may have thousands of messages, as many properties each as it has room for, or
bodies that unpack to a thousand times their size. So those of a request have bounds together: what
a batch of their topic may have of bodies, however they were compressed, and PROPERTIES_MAX
properties. Who asks for much waits for his turn (front.unpacking), so that one such request of an
address is in memory.

Source: ours. RocketMQ bounds bodies as they are sent, and unpacks them on threads of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.ports import Buffer
from penstock.record.build import Record, record_bytes_max
from penstock.record.compression import Bounds
from penstock.record.errors import BatchTooLarge
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.halves.sending import is_half
from penstock.remoting.later.timers import is_late
from penstock.remoting.mapping import Mapped, to_record
from penstock.remoting.wire.batch_body import BatchedMessage, iter_batch
from penstock.remoting.wire.body_codec import COMPRESSED, plain_body, plain_body_up_to
from penstock.remoting.wire.properties import PROPERTIES_BYTES_MAX, VALUE_END, read_properties

if TYPE_CHECKING:
    from penstock.broker.api_stats import LongestTurn
    from penstock.broker.append.batch_rules import BatchRules
    from penstock.broker.broker import Broker
    from penstock.remoting.wire.message import Host

HERE_BYTES: Final = 64 << 10
"""Of a batch that is read at once, and of what a compressed body unpacks to."""
HERE_MESSAGES: Final = 300
HERE_PROPERTIES: Final = 3_000
"""Of such a batch: some milliseconds together."""
PROPERTIES_MAX: Final = 100_000
"""Of all messages of a request: each takes 250 bytes while it is read. A single message has room
for 16,000."""
SLICE_WORK: Final = 200
"""About as many messages, or six times as many properties, in a turn."""
PROPERTIES_OF_WORK: Final = 6


class SentBody(NamedTuple):
    """What a request says of its messages."""

    body: Buffer
    sys_flag: int
    properties: str | None
    """None where the body is a batch, whose messages have their own."""
    flag: int
    born_ms: int
    born_host: Host
    times: int
    rules: BatchRules

    @property
    def is_compressed(self) -> bool:
        """Whether each body is compressed."""
        return self.sys_flag & COMPRESSED != 0


class ReadMessages(NamedTuple):
    """The messages of a request, one at least."""

    records: list[Record]
    first: Mapping[str, str]
    """The properties of the first one."""
    is_special: bool
    """Whether any is delayed, or a half message."""
    size_max: int
    """An upper bound of their bytes."""
    payload: int
    """Bytes of the body as it was sent."""


def few_messages(sent: SentBody) -> ReadMessages | None:
    """Return the messages if to read them is little work, else None.

    Raises MalformedBody, IllegalMessage, RecordError kinds.
    """
    if sent.properties is None:
        return _small_batch(sent)
    body: bytes | None
    if not sent.is_compressed:
        _check_size(sent, len(sent.body))
        body = bytes(sent.body)
    elif len(sent.body) > HERE_BYTES:
        return None
    else:
        body = plain_body_up_to(bytes(sent.body), sent.sys_flag, HERE_BYTES)
        if body is None:
            return None
        _check_size(sent, len(body))
    return _finished(_records(sent, [BatchedMessage(sent.flag, body, sent.properties)]))


def _small_batch(sent: SentBody) -> ReadMessages | None:
    if sent.is_compressed or len(sent.body) > HERE_BYTES:
        return None
    messages = list(islice(iter_batch(memoryview(sent.body)), HERE_MESSAGES + 1))
    properties = sum(one.properties.count(VALUE_END) for one in messages)
    if len(messages) > HERE_MESSAGES or properties > HERE_PROPERTIES:
        return None
    _check_size(sent, sum(len(one.body) for one in messages))
    return _finished(_records(sent, messages))


async def many_messages(broker: Broker, sent: SentBody, turns: LongestTurn) -> ReadMessages:
    """Return the messages, whatever the work. Raises what `few_messages` does."""
    messages = await broker.turns.run(_decoded(sent), turns.note)
    if sent.is_compressed:
        messages = await _unpacked(broker, sent, messages)
    return await broker.turns.run(_records(sent, messages), turns.note)


def _decoded(sent: SentBody) -> Generator[None, None, list[BatchedMessage]]:
    if sent.properties is not None:
        return [BatchedMessage(sent.flag, sent.body, sent.properties)]
    found: list[BatchedMessage] = []
    properties = size = 0
    messages = iter_batch(memoryview(sent.body))
    while some := list(islice(messages, SLICE_WORK)):
        properties += sum(one.properties.count(VALUE_END) for one in some)
        if properties > PROPERTIES_MAX:
            raise IllegalMessage(f"more than {PROPERTIES_MAX} properties in a batch")
        size += sum(len(one.body) for one in some)
        if not sent.is_compressed:
            _check_size(sent, size)
        found += some
        yield
    return found


async def _unpacked(
    broker: Broker, sent: SentBody, messages: Sequence[BatchedMessage]
) -> list[BatchedMessage]:
    """Return the messages as they were before they were compressed, by a worker."""
    loop = asyncio.get_running_loop()
    unpacked: asyncio.Future[list[BatchedMessage]] = loop.create_future()

    def done(found: list[BatchedMessage] | None, error: BaseException | None) -> None:
        if unpacked.done():
            return  # its task was ended
        if error is not None:
            unpacked.set_exception(error)
        else:
            assert found is not None, "a worker has a result or an error"
            unpacked.set_result(found)

    broker.workers.submit(partial(_plain, sent, messages), done)
    return await unpacked


def _plain(sent: SentBody, messages: Iterable[BatchedMessage]) -> list[BatchedMessage]:
    """Unpack bodies, which may have so much together as a batch of the topic."""
    bounds, left = sent.rules.bounds, sent.rules.max_message_bytes
    found: list[BatchedMessage] = []
    for one in messages:
        own = Bounds(min(left, bounds.limit(len(one.body))), ratio_max=1 << 31)
        body = plain_body(bytes(one.body), sent.sys_flag, own)
        left -= len(body)
        found.append(one._replace(body=body))
    return found


def _records(
    sent: SentBody, messages: Sequence[BatchedMessage]
) -> Generator[None, None, ReadMessages]:
    """Make records of messages, a slice at a time. Raises IllegalMessage."""
    if not messages:
        raise IllegalMessage("a batch without messages")
    records: list[Record] = []
    first: Mapping[str, str] | None = None
    is_special, size, work = False, 0, 0
    for message in messages:
        if work >= SLICE_WORK:
            work = 0
            yield
        properties = _properties(message)
        first = properties if first is None else first
        is_special = is_special or is_late(properties) or is_half(sent.sys_flag, properties)
        records.append(_record(sent, message, properties))
        size += record_bytes_max(records[-1])
        work += 1 + len(properties) // PROPERTIES_OF_WORK
    assert first is not None, "there is a message"
    return ReadMessages(records, first, is_special, size, len(sent.body))


def _record(sent: SentBody, message: BatchedMessage, properties: Mapping[str, str]) -> Record:
    return to_record(
        Mapped(
            body=bytes(message.body),
            properties=properties,
            flag=message.flag,
            born_ms=sent.born_ms,
            born_host=sent.born_host,
            reconsume_times=sent.times,
        )
    )


def _properties(message: BatchedMessage) -> Mapping[str, str]:
    if len(message.properties.encode()) > PROPERTIES_BYTES_MAX:
        raise IllegalMessage(f"properties of more than {PROPERTIES_BYTES_MAX} bytes")
    return read_properties(message.properties)


def _check_size(sent: SentBody, size: int) -> None:
    """Refuse bodies that no batch of the topic has room for, before anything is made of them."""
    most = sent.rules.max_message_bytes
    if size > most:
        raise BatchTooLarge(size, most)


def _finished(slices: Generator[None, None, ReadMessages]) -> ReadMessages:
    """Return what a generator of slices returns, all of them at once."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            read: ReadMessages = end.value
            return read
