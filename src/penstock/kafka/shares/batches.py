"""The batches that were read for a hand-out: which offsets are no records, and which bytes to send.

    offsets between batches          never written, or removed: absent
    control batches                  markers of transactions: absent
    of aborted transactions          absent for groups that read committed records only
    batches without a handed record  are not sent

Records are handed out in whole batches as they are stored: a member looks at those of the ranges
that it has got. Whatever is absent is settled with the hand-out, and nobody is asked about it.
Of many small batches the first ones are looked at, and the others with the next hand-out: the first
one has the record that may be handed out next, so that each look gets further.

Source: KIP-932; Kafka `ShareFetchUtils.maybeSliceFetchRecords`, `SharePartition
.maybeFilterAbortedTransactionalAcquiredRecords`.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop
from typing import NamedTuple

from penstock.record.batch import BATCH_HEADER_BYTES, CONTROL, TRANSACTIONAL, read_header
from penstock.record.errors import RecordError
from penstock.record.marker import read_marker
from penstock.shares.runs import Run, Runs, joined
from penstock.storage.index.aborted import AbortedTransaction

BATCHES_MAX = 500
"""Batches of one partition that are looked at for an answer, where 2 MB may have 30,000: 4 ms."""
BATCHES_OF_A_STEP = 10
"""Batches that take as long as a step of a turn."""


class Batch(NamedTuple):
    """One that was read; `end` is exclusive."""

    first: int
    end: int
    data: memoryview


class Found(NamedTuple):
    """What was read."""

    batches: list[Batch]
    absent: list[Run]
    """In order."""
    end: int
    """Behind the last batch."""

    @property
    def batch_ends(self) -> list[int]:
        """Where batches end, in order."""
        return [batch.end for batch in self.batches]


class Acquired(NamedTuple):
    """A range as an answer has it: `last` is inclusive."""

    first: int
    last: int
    deliveries: int


def cost_of(size_bytes: int) -> int:
    """Return the steps of a turn that a look at so many bytes may take."""
    count = min(size_bytes // BATCH_HEADER_BYTES, BATCHES_MAX)
    return 1 + count // BATCHES_OF_A_STEP


def look(
    buffers: Iterable[memoryview], first: int, aborted: Sequence[AbortedTransaction] | None
) -> Found:
    """Look at what was read from offset `first` on; `aborted` transactions touch it, or None."""
    batches: list[Batch] = []
    absent: list[Run] = []
    leaving_out = _Aborted(aborted or ())
    end = first
    for buffer in buffers:
        at = 0
        while at < len(buffer) and len(batches) < BATCHES_MAX:
            header = read_header(buffer, at)
            data = buffer[at : at + header.size_bytes]
            at += header.size_bytes
            begin, stop = header.base_offset, header.last_offset + 1
            if begin > end:
                absent.append((end, begin))
            is_control = bool(header.attributes & CONTROL)
            if is_control:
                leaving_out.end(header.producer_id, begin, data)
            is_aborted = bool(header.attributes & TRANSACTIONAL) and leaving_out.has(
                header.producer_id, begin
            )
            if is_control or is_aborted:
                absent.append((max(begin, end), stop))
            batches.append(Batch(begin, stop, data))
            end = max(end, stop)
    return Found(batches, joined(run for run in absent if run[0] < run[1]), end)


def bytes_of(found: Found, runs: Runs) -> list[memoryview]:
    """Return the batches that have some of the offsets in `runs`, which ascend."""
    kept: list[memoryview] = []
    at = 0
    for batch in found.batches:
        while at < len(runs) and runs[at][1] <= batch.first:
            at += 1
        if at < len(runs) and runs[at][0] < batch.end:
            kept.append(batch.data)
    return kept


def ranges_of(
    runs: Runs, counts: Sequence[int], batch_ends: Sequence[int], size: int
) -> list[Acquired]:
    """Return what was handed out as ranges of one delivery count each.

    A range goes on over the ends of batches as long as it has fewer than `size` records; 0: it ends
    only with the run.
    """
    found: list[Acquired] = []
    at = ended = 0
    for first, end in runs:
        begin = first
        while begin < end:
            count = counts[at + begin - first]
            stop = begin + 1
            while stop < end and counts[at + stop - first] == count:
                stop += 1
            if size and stop - begin > size:
                while ended < len(batch_ends) and batch_ends[ended] < begin + size:
                    ended += 1
                if ended < len(batch_ends):
                    stop = min(stop, batch_ends[ended])
            found.append(Acquired(begin, stop - 1, count))
            begin = stop
        at += end - first
    return found


class _Aborted:
    """Which producers' transactions are aborted at the batch that is looked at."""

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = [(one.first_offset, one.producer_id) for one in aborted]
        heapify(self._coming)
        self._open: set[int] = set()

    def has(self, producer_id: int, first: int) -> bool:
        """Whether a batch from `first` on is of an aborted transaction of this producer."""
        self._begin(first)
        return producer_id in self._open

    def end(self, producer_id: int, first: int, data: memoryview) -> None:
        """A marker at `first` of the producer: what follows is of its next transaction.

        The look may begin with it: the transaction has begun all the same, and it is over.
        """
        self._begin(first)
        try:
            marker = read_marker(data)
        except RecordError:  # of another release: it ends nothing that is known here
            return
        if marker is not None and not marker.is_commit:
            self._open.discard(producer_id)

    def _begin(self, first: int) -> None:
        """Know of the transactions that have begun by the batch from `first` on."""
        while self._coming and self._coming[0][0] <= first:
            self._open.add(heappop(self._coming)[1])
