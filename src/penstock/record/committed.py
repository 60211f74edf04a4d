"""Leaving out what was aborted: the readable pieces of a fetched run.

A broker that is asked for committed records sends all batches below the last stable offset, and
tells which transactions among them were aborted. The reader drops their batches: those of an
aborted producer from the first offset of its transaction to its abort marker.

Source: Kafka `CompletedFetch.nextFetchedRecord`, `consumeAbortedTransactionsUpTo`; KIP-98. The list
of a run counts for that run alone.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.record.batch import BatchHeader
from penstock.record.errors import RecordError
from penstock.record.marker import read_marker
from penstock.record.read import iter_batches, unreadable


class Aborted(NamedTuple):
    """A transaction that was aborted in a partition; `first_offset` is that of its first batch."""

    first_offset: int
    producer_id: int


def committed_pieces(data: memoryview, aborted: Sequence[Aborted]) -> Iterator[memoryview]:
    """Yield the parts of a run of batches without those of aborted transactions, in order.

    A last batch that is cut off is left out, as everywhere. Raises UnreadableBatch for a control
    batch that can not be read, after the pieces before it, and RecordError kinds for bytes that are
    no batches.
    """
    if not aborted:
        yield data
        return
    dropping = _Dropping(aborted)
    begun = at = 0
    for header, batch in iter_batches(data):
        try:
            is_dropped = dropping.drops(header, batch)
        except RecordError as error:
            yield data[begun:at]
            raise unreadable(header, batch, error) from error
        if is_dropped:
            if begun < at:
                yield data[begun:at]
            begun = at + len(batch)
        at += len(batch)
    if begun < at:
        yield data[begun:at]


class _Dropping:
    """Which producers have an aborted transaction open at the present batch."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._coming = list(aborted)
        heapq.heapify(self._coming)
        self._open: set[int] = set()

    def drops(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the next batch is part of an aborted transaction. Raises RecordError kinds."""
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            self._open.add(heapq.heappop(self._coming).producer_id)
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.is_commit:
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open
