"""Records of an internal partition, as a coordinator writes and reads them.

Source: none.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

NO_TIMESTAMP = -1

RECORD_OVERHEAD_BYTES = 12
"""Approximate size of a record in a batch besides key and value."""

REWRITE_BATCH_BYTES = 256 * 1024
"""A rewrite is split into batches of about this size, which every log accepts."""


class UnreadRecord(NamedTuple):
    """A whole record as it is in the log; a loader gets these.

    One that this version cannot read in full stays one: a rewrite copies it as it is.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NO_TIMESTAMP


JournalRecord = tuple[bytes, bytes | None] | UnreadRecord
"""Key and value (None is a tombstone), or a record that is written as it was read."""


COPIED = ("penstock.copied", None)
"""Header of a record that a rewrite has copied while its key had something pending."""


def as_copy(record: JournalRecord) -> UnreadRecord:
    """Return a record for a rewrite that leaves what is pending on its key as it is.

    A plain record behind a transaction's one would have won over it. A copy is behind it only in
    the log: it says what was said before.
    """
    whole = UnreadRecord(*record)
    return whole._replace(headers=(*whole.headers, COPIED))


def original_of(record: UnreadRecord) -> UnreadRecord | None:
    """Return the record of which this one is such a copy; None if it is none."""
    if record.headers[-1:] != (COPIED,):
        return None
    return record._replace(headers=record.headers[:-1])


def records_bytes(records: Sequence[JournalRecord]) -> int:
    """Return about how many bytes these records take in the log."""
    return sum(len(r[0] or b"") + len(r[1] or b"") + RECORD_OVERHEAD_BYTES for r in records)


def in_batches(records: Iterable[JournalRecord]) -> Iterator[list[JournalRecord]]:
    """Yield the records in order, in lists of at most REWRITE_BATCH_BYTES or of one record."""
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
