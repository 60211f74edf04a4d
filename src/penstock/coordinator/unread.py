"""Records of one internal partition that this version cannot read, kept for its rewrites.

    put(record)       a rewrite copies it as it is, until the next record of its key
    keep(record)      it only counts here: the shard has it in its state, and in its live records
    more than the bound, or a batch whose records cannot be read one by one
                      ──► is_in_log_only: none are kept in memory, the partition is not rewritten

So nothing is lost when a broker is downgraded for a day and upgraded again. The price of too many
unreadable records is a log that is not cut, which a metric and a log line report.

Source: none; Kafka keeps such records by compacting without understanding (LogCleaner).
"""

import logging
from collections.abc import Iterator

from penstock.coordinator.records import UnreadRecord

RECORD_OVERHEAD_BYTES = 200
"""Approximate memory of one record besides its bytes."""

IN_LOG_ONLY = UnreadRecord(None, None)
"""Stands for a record that is not kept in memory: its partition is not rewritten."""

_log = logging.getLogger("penstock.coordinator")


def unread_bytes(record: UnreadRecord) -> int:
    """Return the approximate memory of a record, in bytes."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


class UnreadRecords:
    """The unreadable records of one partition; the shard has those whose keys it knows itself."""

    __slots__ = ("_by_key", "_bytes_max", "_keyless", "is_in_log_only", "partition", "size_bytes")

    def __init__(self, partition: int, bytes_max: int) -> None:
        self.partition = partition
        self.size_bytes = 0
        self.is_in_log_only = False
        self._bytes_max = bytes_max
        self._by_key: dict[bytes, UnreadRecord] = {}
        self._keyless: list[UnreadRecord] = []

    def put(self, record: UnreadRecord) -> None:
        """Keep a record whose key the shard does not know, in place of the last one of that key."""
        if record.key is None:
            if self.keep(record) is record:
                self._keyless.append(record)
            return
        before = self._by_key.pop(record.key, None)
        if before is not None:
            self.drop(before)
        if record.value is not None and self.keep(record) is record:
            self._by_key[record.key] = record

    def keep(self, record: UnreadRecord) -> UnreadRecord:
        """Count a record as kept and return it; IN_LOG_ONLY if there is no room."""
        if not self.is_in_log_only:
            self.size_bytes += unread_bytes(record)
            if self.size_bytes > self._bytes_max:
                self.leave_in_log(f"more than {self._bytes_max} bytes cannot be read")
        return IN_LOG_ONLY if self.is_in_log_only else record

    def drop(self, record: UnreadRecord) -> None:
        """Stop counting a record: a later one of its key replaced it."""
        if not self.is_in_log_only:
            self.size_bytes -= unread_bytes(record)

    def leave_in_log(self, reason: str) -> None:
        """Keep nothing in memory, so that the partition is not rewritten while it is owned."""
        if self.is_in_log_only:
            return
        self.is_in_log_only = True
        self.size_bytes = 0
        self._by_key.clear()
        self._keyless.clear()
        _log.warning("internal partition=%d is not rewritten: %s", self.partition, reason)

    def records(self) -> Iterator[UnreadRecord]:
        """Yield the records that were `put`, keyless ones first."""
        yield from self._keyless
        yield from self._by_key.values()
