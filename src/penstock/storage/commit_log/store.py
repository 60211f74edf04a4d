"""The commit log as a store of its partitions: the newest one, and the one that takes appends.

Its limits are positions, since the confirm position is one. `read` is the LogReader's own method:
it is the hot path, and asks the older stores itself for batches that the commit log lacks.

Source: docs/adr/0068; the port is stores/port.py.
"""

from bisect import bisect_right
from operator import itemgetter

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, Position, TopicPartition
from penstock.base.ports import Disk
from penstock.storage.commit_log.checkpoint import Checkpointer
from penstock.storage.commit_log.retention import SegmentRetention
from penstock.storage.commit_log.segments import SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.timestamps import InMemory, SegmentSearch
from penstock.storage.read.needs_disk import Turn, at_once
from penstock.storage.read.reader import LogReader
from penstock.storage.stores.port import EpochEnd, EpochEndFound, Held, TimeSearch


class CommitLogStore:
    """Implements PartitionStore on the parts of one open log."""

    def __init__(  # noqa: PLR0913  the parts that it is the port over
        self,
        *,
        disk: Disk,
        directory: str,
        store: SegmentStore,
        writer: LogWriter,
        reader: LogReader,
        checkpointer: Checkpointer,
        retention: SegmentRetention,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store = store
        self._writer = writer
        self._reader = reader
        self._checkpointer = checkpointer
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.read = reader.read
        self.judge = retention.judge

    def held(self, topic_partition: TopicPartition) -> Held | None:
        """Return [commit log start, log end offset)."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            return None
        return Held(partition.commit_log_start_offset, partition.log_end_offset)

    def search(self, partition: PartitionLog, limit_position: Position) -> TimeSearch:
        """Return a search by time over the segments, below `limit_position`."""
        topic_partition = partition.topic_partition
        start = partition.commit_log_start_offset
        in_memory = []
        for segment in self._store.closing:
            sealed = (segment.pending or {}).get(topic_partition)
            if sealed is not None and sealed.end_offset > start:
                count = len(sealed.columns.bases)
                in_memory.append(InMemory(segment.base, segment.path, sealed.columns, count))
        active = self._store.active
        columns = partition.columns
        if columns.bases and partition.log_end_offset > start:
            in_memory.append(InMemory(active.base, active.path, columns, len(columns.bases)))
        return SegmentSearch(
            self._disk,
            self._directory,
            self._reader.closed(),
            in_memory,
            topic_partition,
            start,
            min(limit_position, self._writer.written_position),
        )

    def find_epoch_end(
        self,
        partition: PartitionLog,
        leader_epoch: LeaderEpoch,
        done: EpochEndFound,
        turn: Turn = at_once,
    ) -> None:
        """Find the end from the log's list of masterships; at once for a recent one."""
        epochs = self._checkpointer.epochs
        at = bisect_right(epochs, leader_epoch, key=itemgetter(0))
        if at == 0:
            done(None, None)
            return
        epoch = epochs[at - 1][0]
        position = epochs[at][1] if at < len(epochs) else self._writer.end_position

        def found(offset: Offset | None, error: PlatformError | None) -> None:
            done(None if offset is None else EpochEnd(epoch, offset), error)

        self._reader.find_offset_at(partition, position, found, turn)
