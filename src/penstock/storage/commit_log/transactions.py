"""The transactions of a log's partitions, for those who read and end them.

Source: KIP-98; ADR 0088.
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, Position
from penstock.record.batch import read_header
from penstock.record.marker import NOTHING_OPEN, Marker, build_marker
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.index.aborted import AbortedTransaction
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import ProducerStates
from penstock.storage.index.transactions import Begun, TransactionEnd
from penstock.storage.read.aborted_search import AbortedSearch
from penstock.storage.read.needs_disk import Turn, at_once


class TransactionLog:
    """What is open, what was aborted, and markers."""

    __slots__ = ("_search", "_states", "_writer")

    def __init__(self, states: ProducerStates, writer: LogWriter, search: AbortedSearch) -> None:
        self._states = states
        self._writer = writer
        self._search = search

    def first_unstable(self, partition: PartitionLog, confirm_position: Position) -> Begun | None:
        """Return where the oldest transaction begins that is open, or not yet confirmed to be over.

        None if there is none: then everything confirmed is stable.
        """
        transactions = self._states.transactions.of(partition.serial)
        return None if transactions is None else transactions.first_unstable(confirm_position)

    def find_aborted(
        self,
        partition: PartitionLog,
        start: Offset,
        end: Offset,
        done: Callable[[list[AbortedTransaction] | None, PlatformError | None], None],
        turn: Turn = at_once,
    ) -> None:
        """Find the aborted transactions that touch [start, end), which lies below what is unstable.

        `done(transactions, error)` is called at once if memory can tell, or later on the loop.
        """
        self._search.find(partition, start, end, done, turn)

    def append_marker(self, partition: PartitionLog, ended: TransactionEnd) -> Offset:
        """Append the marker that ends a producer's transaction in the partition; return its offset.

        The caller has checked the epochs. Raises as `SetLog.append` does.
        """
        transactions = self._states.transactions.of(partition.serial)
        begun = None if transactions is None else transactions.open.get(ended.producer_id)
        first = NOTHING_OPEN if begun is None else begun.offset
        batch = memoryview(
            build_marker(
                Marker(ended.is_commit, ended.coordinator_epoch, first),
                producer_id=ended.producer_id,
                producer_epoch=ended.producer_epoch,
                timestamp_ms=self._states.now_ms,
            )
        )
        return self._writer.append(partition, batch, read_header(batch))
