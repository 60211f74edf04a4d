"""What was read of a queue, for pop: which offsets are messages, which are wanted, which are none.

    offsets that are no record for anybody    absent: markers, aborted, removed by compaction
    records whose tag is not wanted           handed out with the others and accepted at once, so
                                              that nothing changes that another member holds

Source: ours, docs/adr/0134; RocketMQ `PopMessageProcessor.popMsgFromQueue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.record.build import Record
from penstock.record.committed import Aborted, committed_pieces
from penstock.record.read import DecodedRecord, iter_batches, iter_records, run_end
from penstock.remoting.filters.verdicts import Verdict
from penstock.remoting.ids import derived_id, locator_of
from penstock.remoting.mapping import Mapped, to_message
from penstock.remoting.wire.message import Host, Message, encode_message
from penstock.remoting.wire.properties import write_properties
from penstock.shares.runs import Run, Runs

if TYPE_CHECKING:
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.remoting.filters.verdicts import Judge, MessageFilter
    from penstock.remoting.gate import Found

BYTES_MAX: Final = 256 << 10
"""Of messages of one answer, beside the last one; as for pulls."""
LOOKED_MAX: Final = 400
"""Records that are looked at for one answer: some milliseconds."""
SPAN_MAX: Final = 1 << 20
"""Offsets from the first record of an answer to its last: clients acknowledge by bits from there on
(batch_acks.py)."""


class Seen(NamedTuple):
    """A record; `message` is None if its tag is not wanted."""

    offset: int
    timestamp_ms: int
    message: Mapped | None


class Looked(NamedTuple):
    """What was looked at; `end` is exclusive."""

    records: list[Seen]
    absent: list[Run]
    """In order."""
    end: int


class Wanted(NamedTuple):
    """What a client asks for."""

    messages_max: int
    tags: MessageFilter


class Place(NamedTuple):
    """Where messages are, as they tell it."""

    topic: str
    topic_id: bytes
    found: Found
    host: Host


def look(read: PartitionRead, wanted: Wanted, place: Place) -> Looked:
    """Look at what was read, until enough is wanted of it. Raises RecordError kinds."""
    first = int(read.wanted.fetch_offset)
    data = memoryview(b"".join(read.buffers))
    aborted = [Aborted(one.first_offset, one.producer_id) for one in read.aborted or ()]
    records: list[Seen] = []
    absent: list[Run] = []
    at, left, count = first, BYTES_MAX, 0
    judge = wanted.tags.judge()
    for record in _records(data, aborted, first):
        is_full = count == wanted.messages_max or left <= 0 or len(records) == LOOKED_MAX
        if is_full or (records and record.offset - records[0].offset >= SPAN_MAX):
            return Looked(records, absent, at)
        if record.offset > at:
            absent.append((at, record.offset))
        at = record.offset + 1
        message = _message(record, judge, place)
        records.append(Seen(record.offset, record.timestamp_ms, message))
        if message is not None:
            count += 1
            left -= len(message.body)
    end = max(run_end(data, first), at)
    if end > at:
        absent.append((at, end))
    return Looked(records, absent, end)


def _records(data: memoryview, aborted: Sequence[Aborted], first: int) -> Iterator[DecodedRecord]:
    """Yield the records of a run from an offset on, in order."""
    for piece in committed_pieces(data, aborted):
        for header, batch in iter_batches(piece):
            if not header.is_control and header.last_offset >= first:
                yield from (one for one in iter_records(batch) if one.offset >= first)


def _message(record: DecodedRecord, judge: Judge, place: Place) -> Mapped | None:
    plain = Record(record.key, record.value, record.headers, record.timestamp_ms)
    partition = place.found.hosted.partition
    mapped = to_message(plain, derived_id(place.topic_id, partition, record.offset))
    return mapped if judge(mapped.properties) is Verdict.WANTED else None


def divided(
    looked: Looked, runs: Runs, counts: Sequence[int]
) -> tuple[list[tuple[Seen, int]], list[int]]:
    """Divide what was handed out, with `counts` of deliveries so far by offset.

    Returns what is wanted, with its count, and the offsets of what is not; both ascend.
    """
    by_offset = {one.offset: one for one in looked.records}
    wanted: list[tuple[Seen, int]] = []
    unwanted: list[int] = []
    offsets = (offset for first, end in runs for offset in range(first, end))
    for offset, count in zip(offsets, counts, strict=True):
        seen = by_offset[offset]  # nothing is handed out that was not read
        if seen.message is None:
            unwanted.append(offset)
        else:
            wanted.append((seen, count))
    return wanted, unwanted


def encoded(seen: Seen, deliveries: int, place: Place) -> bytes:
    """Return a message as clients get it; its earlier deliveries count as attempts."""
    mapped = seen.message
    assert mapped is not None, "it is wanted"
    hosted = place.found.hosted
    return encode_message(
        Message(
            topic=place.topic,
            queue_id=place.found.queue.queue_id,
            queue_offset=seen.offset,
            body=mapped.body,
            properties=write_properties(mapped.properties),
            locator=locator_of(hosted.partition, seen.offset),
            flag=mapped.flag,
            born_ms=mapped.born_ms,
            born_host=mapped.born_host,
            store_ms=seen.timestamp_ms,
            store_host=place.host,
            reconsume_times=mapped.reconsume_times + deliveries - 1,
        )
    )
