"""Aborted transactions: what a consumer that reads committed records only has to leave out.

    an entry    producer id, first offset, last offset (of the marker), stable offset after it

A segment has the entries of the markers in it, in the order of their offsets. A transaction that
touches an offset may have its marker in any later segment, so a search goes on through the segments
until one tells that everything below the wanted end was decided when it closed. A later one that
has nothing of transactions does not tell that: its index may have been rebuilt, by which nothing is
known of what was open meanwhile.

Source: Kafka `TransactionIndex`, `AbortedTxn` (`collectAbortedTxns`).
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

FIELDS = 4
ENTRY_BYTES = 8 * FIELDS
UNKNOWN = 0
"""A stable offset that is not known: none is smaller, so no search ends too early."""


class AbortedTransaction(NamedTuple):
    """As a fetch answer names it: records of the producer from `first_offset` on."""

    producer_id: int
    first_offset: int


class Aborted(NamedTuple):
    """Columns, one entry for each marker. Both offsets are inclusive."""

    producer_ids: Sequence[int]
    first_offsets: Sequence[int]
    last_offsets: Sequence[int]
    stable_offsets: Sequence[int]

    def overlapping(self, start: int, end: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that touch [start, end), and whether a later one may too."""
        first = bisect_left(self.last_offsets, start)
        decided = bisect_left(self.stable_offsets, end, lo=first)
        found = [
            AbortedTransaction(self.producer_ids[at], self.first_offsets[at])
            for at in range(first, min(decided + 1, len(self.last_offsets)))
            if self.first_offsets[at] < end
        ]
        return found, decided == len(self.last_offsets)

    def part(self, start: int, stop: int | None = None) -> "Aborted":
        """Return the entries [start, stop)."""
        return Aborted(*(column[start:stop] for column in self))

    def add(self, producer_id: int, first_offset: int, last_offset: int, stable: int) -> None:
        """Add the entry of a newer marker; the columns must be arrays."""
        entry = (producer_id, first_offset, last_offset, stable)
        for column, value in zip(self, entry, strict=True):
            assert isinstance(column, array)
            column.append(value)

    def extend(self, newer: "Aborted") -> None:
        """Add the entries of newer markers; the columns must be arrays."""
        for column, added in zip(self, newer, strict=True):
            assert isinstance(column, array)
            column.extend(added)


def tells_all(
    end: int, *, stable_end: int, end_offset: int, aborted_count: int, is_first: bool
) -> bool:
    """Whether no later segment has more of what the first segment's batches below `end` need."""
    has_transactions = aborted_count > 0 or stable_end < end_offset
    return stable_end >= end and (is_first or has_transactions)


NO_ABORTED = Aborted((), (), (), ())
"""Of a partition without aborted transactions in a segment."""


def new_aborted() -> Aborted:
    """Return empty columns that can be added to."""
    return Aborted(*(array("q") for _ in range(FIELDS)))
