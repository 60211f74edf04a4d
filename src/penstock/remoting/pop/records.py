"""What was read of a queue, for pop: which offsets are messages, which are wanted, which are none.

    offsets that are no record for anybody    absent: markers, aborted, removed by compaction
    records that are not wanted               handed out with the others and accepted at once, so
                                              that nothing changes that another member holds

Source: ours, docs/adr/0134; RocketMQ `PopMessageProcessor.popMsgFromQueue`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from penstock.record.build import Record
from penstock.record.committed import Aborted, committed_pieces
from penstock.record.read import DecodedRecord, iter_batches, iter_records, run_end
from penstock.remoting.filters.verdicts import Verdict
from penstock.remoting.ids import derived_id
from penstock.remoting.mapping import Mapped, to_message
from penstock.shares.runs import Run, Runs

if TYPE_CHECKING:
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.remoting.filters.verdicts import Judge, MessageFilter

BYTES_MAX: Final = 256 << 10
"""Of messages of one answer, beside the last one; as for pulls."""
LOOKED_MAX: Final = 400
"""Records that are looked at for one answer: some milliseconds."""
LOOKED_MIN: Final = 8
_ALONE: Final = 1
RECORD_WORK: Final = 25
"""Microseconds of a record without a filter, about; LOOKED_MAX counts those."""
SPAN_MAX: Final = 1 << 20
"""Offsets from the first record of an answer to its last: clients acknowledge by bits from there on
(batch_acks.py)."""


class Source(NamedTuple):
    """Where records come from."""

    topic_id: bytes
    partition: int


class Seen(NamedTuple):
    """A record that was looked at."""

    record: DecodedRecord
    is_wanted: bool = True
    key_hash: int = 0
    """Where order by message group is wanted: what is the same for those of one group."""
    mapped: Mapped | None = None
    """The message that it is, where a filter had to know."""

    def message(self, source: Source) -> Mapped:
        """Return the message that it is."""
        return _mapped(self.record, source) if self.mapped is None else self.mapped


class Looked(NamedTuple):
    """What was looked at; `end` is exclusive."""

    records: list[Seen]
    absent: list[Run]
    """In order."""
    end: int


class Wanted(NamedTuple):
    """What a client asks for."""

    messages_max: int
    filter: MessageFilter
    is_ordered: bool = False


def look(read: PartitionRead, wanted: Wanted, source: Source) -> Looked:
    """Look at what was read, until enough is wanted of it. Raises RecordError kinds."""
    first = int(read.wanted.fetch_offset)
    data = memoryview(b"".join(read.buffers))
    aborted = [Aborted(one.first_offset, one.producer_id) for one in read.aborted or ()]
    records: list[Seen] = []
    absent: list[Run] = []
    at, left, count = first, BYTES_MAX, 0
    judge = None if wanted.filter.wants_all else wanted.filter.judge()
    looked_max = _looked_max(wanted.filter)
    for record in _records(data, aborted, first):
        is_full = count == wanted.messages_max or left <= 0 or len(records) == looked_max
        if is_full or (records and record.offset - records[0].record.offset >= SPAN_MAX):
            return Looked(records, absent, at)
        if record.offset > at:
            absent.append((at, record.offset))
        at = record.offset + 1
        key_hash = _key_hash(record.key, record.offset) if wanted.is_ordered else 0
        seen = (
            Seen(record, True, key_hash)
            if judge is None
            else _judged(record, key_hash, judge, source)
        )
        records.append(seen)
        if seen.is_wanted:
            count += 1
            left -= len(record.value or b"")
    end = max(run_end(data, first), at)
    if end > at:
        absent.append((at, end))
    return Looked(records, absent, end)


def hashes_of(looked: Looked, first: int) -> array[int] | None:
    """Return the hashes of all offsets from the first one on; None if it is behind the end."""
    if first >= looked.end:
        return None
    hashes = array("I", (_key_hash(None, offset) for offset in range(first, looked.end)))
    for one in looked.records:
        if one.record.offset >= first:
            hashes[one.record.offset - first] = one.key_hash
    return hashes


def _key_hash(key: bytes | None, offset: int) -> int:
    """Return a hash of a message group; a record of none waits for nobody."""
    return crc32(key) if key is not None else crc32(b"%d" % offset, _ALONE)


def _looked_max(wanted: MessageFilter) -> int:
    """Return how many records are looked at in a turn, with a filter of so much work each."""
    return max(LOOKED_MAX * RECORD_WORK // (RECORD_WORK + wanted.work), LOOKED_MIN)


def _records(data: memoryview, aborted: Sequence[Aborted], first: int) -> Iterator[DecodedRecord]:
    """Yield the records of a run from an offset on, in order."""
    for piece in committed_pieces(data, aborted):
        for header, batch in iter_batches(piece):
            if not header.is_control and header.last_offset >= first:
                yield from (one for one in iter_records(batch) if one.offset >= first)


def _judged(record: DecodedRecord, key_hash: int, judge: Judge, source: Source) -> Seen:
    mapped = _mapped(record, source)
    return Seen(record, judge(mapped.properties) is Verdict.WANTED, key_hash, mapped)


def _mapped(record: DecodedRecord, source: Source) -> Mapped:
    plain = Record(record.key, record.value, record.headers, record.timestamp_ms)
    return to_message(plain, derived_id(*source, record.offset))


def divided(
    looked: Looked, runs: Runs, counts: Sequence[int]
) -> tuple[list[tuple[Seen, int]], list[int]]:
    """Divide what was handed out, with `counts` of deliveries so far by offset.

    Returns what is wanted, with its count, and the offsets of what is not; both ascend.
    """
    by_offset = {one.record.offset: one for one in looked.records}
    wanted: list[tuple[Seen, int]] = []
    unwanted: list[int] = []
    offsets = (offset for first, end in runs for offset in range(first, end))
    for offset, count in zip(offsets, counts, strict=True):
        seen = by_offset[offset]  # nothing is handed out that was not read
        if not seen.is_wanted:
            unwanted.append(offset)
        else:
            wanted.append((seen, count))
    return wanted, unwanted
