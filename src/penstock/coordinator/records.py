"""Records of an internal partition, as a coordinator writes them and finds them again.

Source: none.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

NO_TIMESTAMP = -1

RECORD_OVERHEAD_BYTES = 12
"""About what a record costs in a batch beside key and value."""

REWRITE_BATCH_BYTES = 256 * 1024
"""A large group's records are written in several batches: any log takes one of this size."""


class UnreadRecord(NamedTuple):
    """A record of which something could not be understood, whole: a rewrite writes it as it was."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NO_TIMESTAMP


JournalRecord = tuple[bytes, bytes | None] | UnreadRecord
"""Key and value, of which None is a tombstone; or a record that is written as it was read."""


def records_bytes(records: Sequence[JournalRecord]) -> int:
    """Return about how many bytes these records take in the log."""
    return sum(len(r[0] or b"") + len(r[1] or b"") + RECORD_OVERHEAD_BYTES for r in records)


def in_batches(records: Iterable[JournalRecord]) -> Iterator[list[JournalRecord]]:
    """Yield the records in their order, as many together as one batch of a rewrite holds."""
    batch: list[JournalRecord] = []
    size_bytes = 0
    for record in records:
        size_bytes += records_bytes((record,))
        if batch and size_bytes > REWRITE_BATCH_BYTES:
            yield batch
            batch, size_bytes = [], records_bytes((record,))
        batch.append(record)
    if batch:
        yield batch
