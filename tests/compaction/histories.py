"""Random histories of one compacted partition, and what a reader must see of them: a plain model.

The model knows nothing of batches that stay or go: it knows what was written, and how it ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from penstock.base.ids import CoordinatorEpoch
from penstock.compaction.clean import LiveProducer
from penstock.extents.layout import Aborted
from penstock.record.batch import TRANSACTIONAL, read_header, stamp
from penstock.record.build import Record, build_batch
from penstock.record.committed import Aborted as AbortedFetch
from penstock.record.committed import committed_pieces
from penstock.record.marker import NOTHING_OPEN, Marker, build_marker
from penstock.record.read import DecodedRecord, iter_batches, iter_records

Seen = dict[bytes, tuple[int, int, bytes | None, tuple]]
"""By key: offset, time, value and headers of the newest record."""


class Decided(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    stable_offset: int


@dataclass(slots=True)
class Log:
    """A partition that is written batch by batch."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    aborted: list[Decided] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each open transaction, by producer id."""
    live: dict[int, LiveProducer] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def append(
        self,
        records: Sequence[Record],
        *,
        producer: int = -1,
        is_open: bool = False,
        codec: int = 0,
        append_time: int | None = None,
    ) -> None:
        """Append records, in a transaction if `is_open`; `append_time`: the broker's time."""
        attributes = TRANSACTIONAL if is_open else 0
        sequence = self.sequences.get(producer, 0)
        epoch = self.epochs.get(producer, 0)
        batch = build_batch(
            records if append_time is None
            else [*records[:-1], records[-1]._replace(timestamp_ms=append_time)],
            codec=codec,
            attributes=attributes | (0 if append_time is None else 0x08),
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else epoch,
            base_sequence=-1 if producer < 0 else sequence,
        )  # fmt: skip
        if is_open:
            self.open.setdefault(producer, self.end)
        if producer >= 0:
            self.sequences[producer] = sequence + len(records)
            self.live[producer] = LiveProducer(epoch, self.end + len(records) - 1)
        self._put(batch, len(records))

    def mark(self, producer: int, *, is_commit: bool, now: int, bumps: bool = False) -> None:
        """End the producer's transaction, also one without batches."""
        first = self.open.pop(producer, NOTHING_OPEN)
        epoch = self.epochs.get(producer, 0) + bumps
        marker = build_marker(
            Marker(is_commit, CoordinatorEpoch(3), first),
            producer_id=producer,
            producer_epoch=epoch,
            timestamp_ms=now,
        )
        if bumps:
            self.epochs[producer] = epoch
            self.sequences[producer] = 0
            self.live[producer] = LiveProducer(epoch, None)
        if first != NOTHING_OPEN and not is_commit:
            stable = min(self.open.values(), default=self.end + 1)
            self.aborted.append(Decided(producer, first, self.end, stable))
        self._put(marker, 1)

    def _put(self, batch: bytes, count: int) -> None:
        data = bytearray(batch)
        stamp(memoryview(data), 0, base_offset=self.end, leader_epoch=7 + self.end // 10)
        self.batches.append(bytes(data))
        self.end += count

    @property
    def stable(self) -> int:
        return min(self.open.values(), default=self.end)

    def aborted_below(self, offset: int) -> Aborted:
        rows = [row for row in self.aborted if row.first_offset < offset]
        return Aborted(*zip(*rows, strict=True)) if rows else Aborted()


def fetched(aborted: Aborted) -> list[AbortedFetch]:
    """Aborted transactions as an answer to a fetch names them."""
    pairs = zip(aborted.producer_ids, aborted.first_offsets, strict=True)
    return [AbortedFetch(first, producer) for producer, first in pairs]


def read_committed(batches: Sequence[bytes | memoryview], aborted: Aborted) -> list[DecodedRecord]:
    """The records that a consumer of committed records gets, in order."""
    found: list[DecodedRecord] = []
    for piece in committed_pieces(memoryview(b"".join(batches)), fetched(aborted)):
        for header, batch in iter_batches(piece):
            if not header.is_control:
                found += iter_records(batch)
    return found


def last_values(records: Sequence) -> Seen:
    """The newest record of each key, and nothing for keys that were deleted."""
    newest = {
        r.key: (r.offset, r.timestamp_ms, r.value, r.headers) for r in records if r.key is not None
    }
    return {key: seen for key, seen in newest.items() if seen[2] is not None}


def offsets(batches: Sequence[bytes | memoryview]) -> list[tuple[int, int]]:
    headers = [read_header(memoryview(batch)) for batch in batches]
    return [(header.base_offset, header.last_offset) for header in headers]


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"", b"a longer key" * 12])
VALUES = st.none() | st.sampled_from([b"", b"1", b"x" * 200])
HEADERS = st.sampled_from([(), (("h", b"1"), ("n", None))])
TIMES = st.integers(0, 5_000)
RECORDS = st.lists(
    st.builds(Record, st.one_of(KEYS, KEYS, KEYS, st.none()), VALUES, HEADERS, TIMES),
    min_size=1,
    max_size=5,
)
PRODUCERS = st.integers(1, 3)


@dataclass(frozen=True, slots=True)
class Append:
    records: list[Record]
    producer: int
    is_open: bool
    codec: int
    append_time: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    producer: int
    is_commit: bool
    bumps: bool


@dataclass(frozen=True, slots=True)
class Clean:
    """A pass: below a share of what is decided, so much later, with room for so many keys."""

    cut: int
    later_ms: int
    keys: int
    knows_producers: bool


APPENDS = st.builds(
    Append,
    RECORDS,
    st.sampled_from([-1, 1, 2, 3]),
    st.booleans(),
    st.sampled_from([0, 0, 1, 2, 3, 4]),
    st.sampled_from([None, None, None, 9_000]),
)
MARKS = st.builds(Mark, PRODUCERS, st.booleans(), st.booleans())
CLEANS = st.builds(
    Clean, st.integers(0, 10), st.integers(0, 900), st.sampled_from([3, 6, 100]), st.booleans()
)
TRANSACTIONS = st.builds(
    lambda records, mark: [Append(records, mark.producer, True, 0, None), mark], RECORDS, MARKS
)
SINGLE = st.one_of(APPENDS, APPENDS, MARKS, CLEANS).map(lambda step: [step])
HISTORIES = st.lists(st.one_of(SINGLE, SINGLE, TRANSACTIONS), min_size=4, max_size=25).map(
    lambda parts: [step for part in parts for step in part]
)


def write(log: Log, step: Append | Mark, now: int) -> None:
    """Apply a step; what a broker would refuse is left out."""
    if isinstance(step, Mark):
        log.mark(step.producer, is_commit=step.is_commit, now=now, bumps=step.bumps)
        return
    is_open = step.producer in log.open or (step.is_open and step.producer >= 0)
    log.append(
        step.records,
        producer=step.producer,
        is_open=is_open,
        codec=step.codec,
        append_time=step.append_time,
    )
