"""The consumer's view of one partition, whichever store has its batches.

    log start <= commit log start <= log end
    |------------ | ------------------|
      older stores   commit log

Records from the log start on are kept; retention and DeleteRecords raise it. The commit log has
them from the commit log start on, and the stores behind it have those between the two. While the
commit log is the only store the two are equal.

Source: docs/adr/0068-a-partition-is-a-sequence-over-stores.md; Kafka's `logStartOffset` and
`localLogStartOffset` (KIP-405).
"""

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.base.invariant import invariant
from penstock.storage.index.producers import ProducerStates, ProducerTable


class PartitionView:
    """One partition of a log. Only the log changes it; all code may read the fields."""

    __slots__ = (
        "commit_log_start_offset",
        "last_end_position",
        "log_end_offset",
        "log_start_offset",
        "max_timestamp",
        "producers",
        "serial",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, serial: int, states: ProducerStates
    ) -> None:
        self.topic_partition = topic_partition
        self.serial = serial
        """Number of the partition within this process, used by the producer table."""
        self.producers = ProducerTable(states, serial)
        self.log_start_offset = Offset(0)
        """First kept offset, inclusive."""
        self.commit_log_start_offset = Offset(0)
        """First offset that the commit log has, inclusive; never below the log start."""
        self.log_end_offset = Offset(0)
        """Next offset to be written, exclusive end."""
        self.last_end_position = Position(0)
        """End position (exclusive) of the newest batch in the set's log, to be compared with the
        confirm position; 0 while there is none."""
        self.max_timestamp = -1
        """Largest timestamp ever appended, ms."""

    def begin_at(self, offset: Offset) -> None:
        """Set the first offset of an empty partition."""
        is_empty = self.log_start_offset == self.log_end_offset
        invariant(is_empty, "only an empty partition begins anywhere", end=self.log_end_offset)
        self.log_start_offset = self.commit_log_start_offset = self.log_end_offset = offset

    def raise_log_start(self, offset: Offset) -> None:
        """Keep nothing below `offset` any more, in any store. The log start never falls."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.commit_log_start_offset = max(offset, self.commit_log_start_offset)

    def release(self, offset: Offset) -> None:
        """Leave what lies below `offset` to older stores; the log start does not change."""
        invariant(offset <= self.log_end_offset, "released above the log end", offset=offset)
        self.commit_log_start_offset = max(offset, self.commit_log_start_offset)

    def reach_back(self, offset: Offset) -> None:
        """Begin at `offset`, which an older store has, as a log that is read anew from the commit
        log's files alone does not know; nothing where that is not below the log start.
        """
        self.log_start_offset = min(offset, self.log_start_offset)
