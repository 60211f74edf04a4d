"""What a consumer sees of one partition, wherever its batches are.

    log start <= commit log start <= log end
    |------------ | ------------------|
      older stores   commit log

The log start says what is kept: retention and DeleteRecords raise it. The commit log's own start
says from where on the commit log has it; what lies between the two, the stores behind it have.
With the commit log alone the two are equal.

Source: docs/adr/0068; Kafka tells `logStartOffset` from `localLogStartOffset` (KIP-405).
"""

from penstock.base.ids import TopicPartition
from penstock.base.invariant import invariant
from penstock.storage.index.producers import ProducerStates, ProducerTable


class PartitionView:
    """One partition of a log. Written by the log alone; everyone may read the fields."""

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
        """Names the partition inside this process, for the producer table."""
        self.producers = ProducerTable(states, serial)
        self.log_start_offset = 0
        """First kept offset, inclusive."""
        self.commit_log_start_offset = 0
        """First offset that the commit log has, inclusive; never below the log start."""
        self.log_end_offset = 0
        """Next offset to be written, exclusive end."""
        self.last_end_position = 0
        """End (exclusive) of the newest batch in the log of the set, the measure of what is
        confirmed; 0 while there is none."""
        self.max_timestamp = -1
        """Largest timestamp ever appended, ms."""

    def begin_at(self, offset: int) -> None:
        """Let the empty partition begin at `offset`."""
        self.log_start_offset = self.commit_log_start_offset = self.log_end_offset = offset

    def raise_log_start(self, offset: int) -> None:
        """Keep nothing below `offset` any more, in any store. The log start never falls."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.commit_log_start_offset = max(offset, self.commit_log_start_offset)

    def release(self, offset: int) -> None:
        """Let older stores have what lies below `offset`; the log start stays."""
        invariant(offset <= self.log_end_offset, "released above the log end", offset=offset)
        self.commit_log_start_offset = max(offset, self.commit_log_start_offset)

    def reach_back(self, offset: int) -> None:
        """Begin at `offset`, which an older store has, as a log that is read anew from the commit
        log's files alone does not know; nothing where that is not below the log start.
        """
        self.log_start_offset = min(offset, self.log_start_offset)
