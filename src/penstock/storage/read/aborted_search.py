"""Which aborted transactions touch the offsets that a consumer is about to get.

    piece with the first offset ─► later ones, until one says that all of it was decided ─► active

A piece is what the partition has in a closed segment, or in an extent of an older store.

A read ends with its segment, so what later segments have matters for the first one's batches only.

Memory knows the active segment, those that are just closing, and those whose index is cached. If
another is needed, or there is much to be found, the search goes on off the loop, through the
indexes on the disk.

Source: Kafka `UnifiedLog.collectAbortedTransactions`, `LogSegment.collectAbortedTxns`.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.base.ports import Disk, Lane
from penstock.storage.commit_log.segments import SegmentStore
from penstock.storage.errors import ReadFailed
from penstock.storage.index.aborted import AbortedTransaction, Overlap, tells_all
from penstock.storage.index.lookup import SealedLookup
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.sealed_index import Sealed
from penstock.storage.read.needs_disk import Over, Turn, as_platform_error, at_once
from penstock.storage.read.reader import LogReader
from penstock.storage.stores.older import OlderStores
from penstock.storage.stores.port import Decided

FOUND_HERE_MAX = 500
"""Transactions that are found on the loop, at 5 us each; a search for more is off the loop."""
SEGMENTS_HERE_MAX = 100
"""Closed segments that are looked at on the loop, at 10 us each."""

Transactions: TypeAlias = list[AbortedTransaction]
Found = Callable[[Transactions | None, PlatformError | None], None]


class AbortedSearch:
    """Searches of one log. Lives on the loop; work off the loop gets arguments only."""

    __slots__ = ("_directory", "_disk", "_older", "_reader", "_store")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        store: SegmentStore,
        reader: LogReader,
        older: OlderStores,
    ) -> None:
        self._older = older
        self._disk = disk
        self._directory = directory
        self._store = store
        self._reader = reader

    def known(self, partition: PartitionLog, start: Offset, end: Offset) -> Transactions | None:
        """Return the aborted transactions that touch [start, end), in order of first offset.

        All of them below `end` must be decided. Those that have no batch there in the segment with
        `start`, as a read of it ends, may be left out. None if memory can not tell, or has too many
        for a turn of the loop.
        """
        found: Transactions = []
        for number, sealed in enumerate(self._in_memory(partition, start)):
            if sealed is None or number >= SEGMENTS_HERE_MAX:
                return None
            more = sealed.aborted.few_overlapping(start, end, FOUND_HERE_MAX - len(found))
            if more is None:
                return None
            found += more.transactions
            if _is_over(sealed, more, end, is_first=number == 0):
                return _in_order(found)
        newest = partition.aborted.few_overlapping(start, end, FOUND_HERE_MAX - len(found))
        return None if newest is None else _in_order(found + newest.transactions)

    def _in_memory(self, partition: PartitionLog, start: Offset) -> Iterator[Sealed | None]:
        """Yield what closed segments have, from the one with `start` on; None if not here."""
        if start < partition.commit_log_start_offset:
            yield None
            return
        if partition.bases and start >= partition.bases[0]:
            return
        base = self._reader.segment_with(partition, start)
        if base is None:
            yield None
            return
        for segment in self._store.closed_above(base):
            yield self._reader.sealed_in(segment, partition)

    def find(
        self,
        partition: PartitionLog,
        start: Offset,
        end: Offset,
        done: Found,
        turn: Turn = at_once,
    ) -> None:
        """Find the same; `done(transactions, error)` comes at once if memory can tell."""
        known = self.known(partition, start, end)
        if known is not None:
            done(known, None)
            return

        def begin(over: Over) -> None:
            def finished(found: Transactions | None, error: BaseException | None) -> None:
                done(found, None if error is None else as_platform_error(error))
                over()

            self._reader.off_loop(self._search(partition, start, end), finished, Lane.READ)

        turn(begin, lambda: done(None, ReadFailed("nobody waits for it any more")))

    def _search(
        self, partition: PartitionLog, start: Offset, end: Offset
    ) -> Callable[[], Transactions]:
        """Return the search through the indexes on the disk, which may wait.

        What memory has of newer segments is taken now: it is only added to, and replaced by others.
        """
        wanted = partition.topic_partition
        closing = [(segment.pending or {}).get(wanted) for segment in self._store.closing]
        newer = [sealed.aborted for sealed in closing if sealed is not None]
        newer.append(partition.aborted)
        counted = [(aborted, len(aborted)) for aborted in newer]
        lookup = SealedLookup(self._disk, self._directory, self._reader.closed())
        older = self._older.decided(partition, start)

        def search() -> Transactions:
            found, is_first = [], True
            for piece in older:
                more, may_go_on = piece.aborted.overlapping(start, end)
                found += more
                if not may_go_on or _tells_all(piece, end, is_first=is_first):
                    return _in_order(found)
                is_first = False
            more, is_decided = lookup.aborted(wanted, start, end, is_first=is_first)
            found += more
            for aborted, count in () if is_decided else counted:
                found += aborted.overlapping(start, end, count).transactions
            return _in_order(found)

        return search


def _is_over(sealed: Sealed, more: Overlap, end: int, *, is_first: bool) -> bool:
    """Whether later segments can have no more than what a segment has."""
    return not more.may_go_on or tells_all(
        end,
        stable_end=sealed.stable_end,
        end_offset=sealed.end_offset,
        aborted_count=len(sealed.aborted.last_offsets),
        is_first=is_first,
    )


def _tells_all(piece: Decided, end: int, *, is_first: bool) -> bool:
    return tells_all(
        end,
        stable_end=piece.stable_end,
        end_offset=piece.end_offset,
        aborted_count=len(piece.aborted),
        is_first=is_first,
    )


def _in_order(found: Transactions) -> Transactions:
    """Return each once: an extent and the segment that it was made from may both be asked."""
    return sorted(dict.fromkeys(found), key=lambda one: one.first_offset)
