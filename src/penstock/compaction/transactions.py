"""Which batches of a pass belong to aborted transactions, and which markers are still needed.

    aborted     a producer's transactional batch between the first offset of a transaction that the
                notes list and its marker
    needed      a marker as long as a batch of its transaction is left, an empty one too: without it
                the transaction would be open for ever where state is read from the batches

Source: Kafka `CleanedTransactionMetadata`, KIP-98. Departure: Kafka counts the batches that a pass
reads, here those that it keeps count. So a marker gets its delete horizon with the pass that drops
its last batch, and goes after it from a quiet partition, too (KAFKA-8522).
Of an abort marker that says that its transaction had batches the notes must know: what is not
listed as aborted would be kept as committed (Redpanda #16295, #15672).
"""

from bisect import bisect_right

from penstock.compaction.errors import UnlistedAbort
from penstock.extents.layout import Aborted
from penstock.record.batch import BatchHeader
from penstock.record.marker import NOTHING_OPEN, Marker


class PassTransactions:
    """The transactions of one partition, while a pass goes through its batches in order."""

    def __init__(self, aborted: Aborted) -> None:
        """`aborted` lists every aborted transaction that begins below the end of the pass.

        Also those whose marker is above it. A producer's transactions do not overlap.
        """
        self._spans: dict[int, tuple[list[int], list[int]]] = {}
        """By producer id: first offsets and offsets of the markers, both rising."""
        self._with_batches: set[int] = set()
        for producer_id, first, marker in sorted(zip(*aborted[:3], strict=True)):
            firsts, markers = self._spans.setdefault(producer_id, ([], []))
            firsts.append(first)
            markers.append(marker)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records was aborted."""
        if not header.is_transactional:
            return False
        found = self._spans.get(header.producer_id)
        if found is None:
            return False
        firsts, markers = found
        at = bisect_right(firsts, header.base_offset) - 1
        return at >= 0 and header.base_offset < markers[at]

    def check(self, header: BatchHeader, marker: Marker) -> None:
        """Raise UnlistedAbort unless the notes know what a marker aborts."""
        if marker.is_commit or marker.first_offset == NOTHING_OPEN:
            return
        _, markers = self._spans.get(header.producer_id, ([], []))
        at = bisect_right(markers, header.base_offset) - 1
        if at < 0 or markers[at] != header.base_offset:
            raise UnlistedAbort(header.base_offset, header.producer_id)

    def note_kept(self, header: BatchHeader) -> None:
        """Note that a batch of records stays, empty or not."""
        if header.is_transactional:
            self._with_batches.add(header.producer_id)

    def end(self, header: BatchHeader) -> bool:
        """Note a marker; return whether a batch of its transaction stays."""
        has_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        return has_batches
