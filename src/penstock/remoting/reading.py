"""Records that were read become messages on the wire, those of them that a filter wants.

Batches are read as they are stored. A pull may begin and end in the middle of one: records before
its offset are stepped over, and the next pull reads the batch again from where this one has ended.
Markers of transactions and what was aborted are stepped over, too.

A read is cut into slices of a few ms. A slice that has found messages is an answer; one that has
found none says how far it has come, and the next goes on there.

Source: ours, docs/adr/0122 and docs/adr/0133.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.record.build import Record
from penstock.record.committed import Aborted, committed_pieces
from penstock.record.read import DecodedRecord, iter_batches, iter_records, run_end
from penstock.remoting.filters.filtering import Messages
from penstock.remoting.filters.verdicts import MessageFilter, Verdict
from penstock.remoting.filters.waiting import Looked
from penstock.remoting.gate import Found
from penstock.remoting.ids import derived_id, locator_of
from penstock.remoting.mapping import Mapped, to_message
from penstock.remoting.wire.message import Host, Message, encode_message
from penstock.remoting.wire.properties import write_consumed

if TYPE_CHECKING:
    from penstock.broker.fetch.partition_read import PartitionRead

ANSWER_BYTES_MAX: Final = 256 << 10
"""Of messages, beside the last one: a compressed batch may hold a thousand times its size.
RocketMQ has this bound, too (`maxTransferBytesOnMessageInMemory`)."""
SLICE_WORK: Final = 4_000
"""About as many microseconds. It is counted and not timed, so that equal reads are cut equally."""
RECORD_WORK, HEADER_WORK, SKIPPED_WORK = 15, 2, 5
"""Of a record that is judged and each of its headers, and of one before the pull's offset."""
_PROPERTIES_UNIT: Final = 10
"""An expression's work is for a KiB of properties."""


class Wanted(NamedTuple):
    """What a pull asks for."""

    topic: str
    found: Found
    offset: int
    messages_max: int
    filter: MessageFilter
    host: Host
    topic_id: bytes
    is_retry: bool = False
    """Whether the topic is a retry topic, by the name that clients have for it."""


def read_messages(
    wanted: Wanted,
    read: "PartitionRead",
    left_out: Counter[Verdict],
    looked: deque[Looked] | None = None,
) -> Iterator[Messages]:
    """Yield after each slice what was found so far; the last one is marked.

    What the filter does not want is counted in `left_out`; the last records that it has looked at
    are in `looked`, for others who wait. Raises RecordError kinds.
    """
    encoded: list[bytes] = []
    left, work, following = ANSWER_BYTES_MAX, 0, wanted.offset
    judge, each = wanted.filter.judge(), wanted.filter.work
    buffers = read.buffers
    data = buffers[0] if len(buffers) == 1 else memoryview(b"".join(buffers))
    for record in _records(data, read, wanted.offset):
        if work >= SLICE_WORK:
            yield Messages(encoded, following, is_last=False)
            judge, work = wanted.filter.judge(), 0
        if record.offset < wanted.offset:
            work += SKIPPED_WORK
            continue
        if len(encoded) == wanted.messages_max or left <= 0:
            yield Messages(encoded, record.offset)
            return
        work += _work(record, each)
        following = record.offset + 1
        mapped = _mapped(wanted, record)
        if looked is not None:
            looked.append(Looked(record.offset, mapped.properties))
        verdict = judge(mapped.properties)
        if verdict is not Verdict.WANTED:
            left_out[verdict] += 1
            continue
        encoded.append(encode_message(_message(wanted, record, mapped)))
        left -= len(encoded[-1])
    yield Messages(encoded, max(run_end(data, wanted.offset), wanted.offset))


def _records(data: memoryview, read: "PartitionRead", offset: int) -> Iterator[DecodedRecord]:
    """Yield the committed records of the batches that end at an offset or behind it."""
    aborted = [Aborted(one.first_offset, one.producer_id) for one in read.aborted or ()]
    for piece in committed_pieces(data, aborted):
        for header, batch in iter_batches(piece):
            if not header.is_control and header.last_offset >= offset:
                yield from iter_records(batch)


def _work(record: DecodedRecord, each: int) -> int:
    """Return about how many microseconds a record costs with a filter of so much work."""
    work = RECORD_WORK + HEADER_WORK * len(record.headers)
    if each:
        size = sum(len(value or b"") for _, value in record.headers)
        work += each * (1 + (size >> _PROPERTIES_UNIT))
    return work


def _mapped(wanted: Wanted, record: DecodedRecord) -> Mapped:
    plain = Record(record.key, record.value, record.headers, record.timestamp_ms)
    partition = wanted.found.hosted.partition
    return to_message(plain, derived_id(wanted.topic_id, partition, record.offset))


def _message(wanted: Wanted, record: DecodedRecord, mapped: Mapped) -> Message:
    partition = wanted.found.hosted.partition
    return Message(
        topic=wanted.topic,
        queue_id=wanted.found.queue.queue_id,
        queue_offset=record.offset,
        body=mapped.body,
        properties=write_consumed(mapped.properties),
        locator=locator_of(partition, record.offset, is_retry=wanted.is_retry),
        flag=mapped.flag,
        born_ms=mapped.born_ms,
        born_host=mapped.born_host,
        store_ms=record.timestamp_ms,
        store_host=wanted.host,
        reconsume_times=mapped.reconsume_times,
    )
