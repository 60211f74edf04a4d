"""Aborted transactions: what a consumer that reads committed records only has to leave out.

    an entry    producer id, first offset, last offset (of the marker), stable offset after it

A segment has the entries of the markers in it, in the order of their offsets. A transaction that
touches an offset may have its marker in any later segment, so a search goes on through the segments
until one tells that everything below the wanted end was decided when it closed. A later one that
has nothing of transactions does not tell that: its index may have been rebuilt, by which nothing is
known of what was open meanwhile.

A transaction that was open for long has its entry behind all that began and ended meanwhile. So
entries that begin too late are passed over by blocks (least.py): a search costs by what it finds.
That has a bound: the producers that had an open transaction at `start`, half of those that a log
remembers, and those that have begun in what is read, a batch each.

Source: Kafka `TransactionIndex`, `AbortedTxn` (`collectAbortedTxns`).
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.ids import Offset
from penstock.storage.index.least import Least

FIELDS = 4
ENTRY_BYTES = 8 * FIELDS
UNKNOWN = Offset(0)
"""A stable offset that is not known: none is smaller, so no search ends too early."""
FEW = 200
"""Entries that are looked at one by one: 20 us."""
NO_LIMIT = sys.maxsize - 2


class AbortedTransaction(NamedTuple):
    """As a fetch answer names it: records of the producer from `first_offset` on."""

    producer_id: int
    first_offset: int


class Overlap(NamedTuple):
    """What was found in the entries of one segment."""

    transactions: list[AbortedTransaction]
    may_go_on: bool
    """Whether a later segment may have more."""


class Aborted:
    """Columns, one entry for each marker. Both offsets are inclusive."""

    __slots__ = ("_least", "first_offsets", "last_offsets", "producer_ids", "stable_offsets")

    def __init__(
        self,
        producer_ids: Sequence[int] = (),
        first_offsets: Sequence[int] = (),
        last_offsets: Sequence[int] = (),
        stable_offsets: Sequence[int] = (),
    ) -> None:
        self.producer_ids = producer_ids
        self.first_offsets = first_offsets
        self.last_offsets = last_offsets
        self.stable_offsets = stable_offsets
        self._least: Least | None = None
        """Columns that can be added to have it from the beginning."""

    @property
    def columns(self) -> tuple[Sequence[int], ...]:
        """The columns in the order in which they are written."""
        return self.producer_ids, self.first_offsets, self.last_offsets, self.stable_offsets

    def __len__(self) -> int:
        return len(self.stable_offsets)

    def prepare(self) -> None:
        """Do now what the first search would do: 50 ms for a million entries."""
        if self._least is None and len(self) > FEW:
            self._least = Least(self.first_offsets)

    def overlapping(self, start: int, end: int, count: int | None = None) -> Overlap:
        """Return the transactions that touch [start, end), in the order of their markers.

        It costs a few microseconds for each that is found, and little for those that are not. Off
        the loop, `count` is how many entries there were when the search began: others may be added
        meanwhile.
        """
        found = self.few_overlapping(start, end, NO_LIMIT, count)
        assert found is not None, "a search without a limit"
        return found

    def few_overlapping(
        self, start: int, end: int, most: int, count: int | None = None
    ) -> Overlap | None:
        """Return the same; None if there may be more than `most`."""
        count = len(self) if count is None else count
        first = bisect_left(self.last_offsets, start, hi=count)
        decided = bisect_left(self.stable_offsets, end, lo=first, hi=count)
        places = self._below(end, first, min(decided + 1, count), most)
        if places is None:
            return None
        ids, offsets = self.producer_ids, self.first_offsets
        found = [AbortedTransaction(ids[at], offsets[at]) for at in places]
        return Overlap(found, decided == count)

    def _below(self, end: int, start: int, stop: int, most: int) -> list[int] | None:
        """Return which of the entries [start, stop) begin below `end`."""
        if stop - start > FEW:
            self.prepare()
        if self._least is not None:
            return self._least.below(self.first_offsets, start, stop, end, most)
        found = [at for at in range(start, stop) if self.first_offsets[at] < end]
        return None if len(found) > most else found

    def part(self, start: int, stop: int | None = None) -> "Aborted":
        """Return the entries [start, stop)."""
        return Aborted(*(column[start:stop] for column in self.columns))

    def add(self, producer_id: int, first_offset: int, last_offset: int, stable: int) -> None:
        """Add the entry of a newer marker; the columns must be arrays."""
        entry = (producer_id, first_offset, last_offset, stable)
        if self._least is not None:
            self._least.add(len(self), first_offset)
        for column, value in zip(self.columns, entry, strict=True):
            assert isinstance(column, array)
            column.append(value)

    def extend(self, newer: "Aborted") -> None:
        """Add the entries of newer markers; the columns must be arrays."""
        count = len(self)
        for column, added in zip(self.columns, newer.columns, strict=True):
            assert isinstance(column, array)
            column.extend(added)
        if self._least is None:
            self._least = Least()
        self._least.extend(self.first_offsets, count)


def tells_all(
    end: int, *, stable_end: int, end_offset: int, aborted_count: int, is_first: bool
) -> bool:
    """Whether no later segment has more of what the first segment's batches below `end` need."""
    has_transactions = aborted_count > 0 or stable_end < end_offset
    return stable_end >= end and (is_first or has_transactions)


NO_ABORTED = Aborted()
"""Of a partition without aborted transactions in a segment."""


def new_aborted() -> Aborted:
    """Return empty columns that can be added to."""
    made = Aborted(*(array("q") for _ in range(FIELDS)))
    made.extend(NO_ABORTED)
    return made
