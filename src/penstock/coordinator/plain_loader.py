"""The part of a loader that kinds share which write nothing in transactions.

Source: ours; in Kafka every coordinator's playback has a `replayEndTransactionMarker`.
"""

from abc import ABC, abstractmethod

from penstock.coordinator.pending import Writer
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unread import UnreadRecords


class PlainLoader(ABC):
    """A Loader without `make` and `discard`; subclasses read a record by `load`."""

    __slots__ = ("_unread",)

    def __init__(self, unread: UnreadRecords) -> None:
        self._unread = unread

    @abstractmethod
    def load(self, record: UnreadRecord) -> None:
        """As in Loader."""

    def load_copy(self, record: UnreadRecord) -> None:
        """As in Loader: nothing is pending."""
        self.load(record)

    def load_pending(self, writer: Writer, record: UnreadRecord) -> None:
        """Leave it where it is: this kind has no records of transactions."""
        self.leave_in_log(f"a record in a transaction of producer {writer.producer_id}")

    def load_end(self, writer: Writer, *, is_commit: bool) -> None:  # noqa: B027  nothing ends
        """Pass over a marker: it ends nothing here."""

    def leave_in_log(self, reason: str) -> None:
        """As in Loader."""
        self._unread.leave_in_log(reason)
