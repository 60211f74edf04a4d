"""The internal topic as a coordinator sees it: a port of one method.

Source: Kafka, PartitionWriter of coordinator-common.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unwritten import Unwritten

JournalDone = Callable[[Unwritten | None], None]


class Journal(Protocol):
    """One internal topic."""

    def append(
        self,
        partition: int,
        records: Sequence[JournalRecord],
        done: JournalDone,
        writer: Writer | None = None,
    ) -> None:
        """Append the records, together and in order, to a partition.

        Appends to one partition keep their order in the log. `done(None)` runs once the records are
        durable and replicated, `done(reason)` if they are refused or lost: exactly one of the two,
        possibly before `append` returns. `done(LATE)` may run once before it. A value of None is a
        tombstone. With a writer they are of its transaction, which must be open in the partition or
        have been verified.
        """
