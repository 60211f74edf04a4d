"""What is due of what was read of a delay level, up to a bound.

Source: ours, docs/adr/0127.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import Record, record_bytes_max
from penstock.record.read import iter_batches, iter_records, run_end
from penstock.remoting.later.delayed import Destination, released

RECORDS_MAX: Final = 512
"""Taken at once: some milliseconds."""
BYTES_MAX: Final = 256 << 10
"""Of several; a single one may have what its topic permits."""
STAMP_BYTES_MAX: Final = 40
"""Of the header that delivery adds (delayed.stamped)."""


HELD_BYTES_MAX: Final = 160
"""Of the headers that waiting adds (delayed.held)."""


class Waiting(NamedTuple):
    """A record that is due, and where it is to go."""

    destination: Destination
    record: Record
    bytes_max: int
    """Of the record in a batch (record_bytes_max)."""

    def waits_on(self, now_ms: int) -> bool:
        """Whether it is to wait in another level first."""
        return self.destination.until_ms > now_ms


class Due(NamedTuple):
    """What is due, and where to go on."""

    records: list[Waiting]
    next_offset: int
    next_due_ms: int | None
    """When the first one behind them is due; None where that is not known."""
    unreadable: int
    """Records that do not say where they are to go: nothing of the front's has written them."""
    recalled: int = 0
    """Records that were due, too, and are to go nowhere."""


def take_due(data: memoryview, first: int, now_ms: int) -> Due:
    """Return what is due in whole batches that begin at or before the offset `first`.

    Raises RecordError kinds.
    """
    taken: list[Waiting] = []
    size = unreadable = 0
    for header, batch in iter_batches(data):
        if header.is_control or header.last_offset < first:
            continue
        for one in iter_records(batch):
            if one.offset < first:
                continue
            found = released(one)
            if found is None:
                unreadable += 1
                continue
            destination, record = found
            if destination.due_ms > now_ms:
                return Due(taken, one.offset, destination.due_ms, unreadable)
            if taken and (len(taken) == RECORDS_MAX or size >= BYTES_MAX):
                return Due(taken, one.offset, destination.due_ms, unreadable)
            bytes_max = record_bytes_max(record)
            taken.append(Waiting(destination, record, bytes_max))
            size += bytes_max
    return Due(taken, max(run_end(data, first), first), None, unreadable)


def parts_of(
    records: Sequence[Waiting], bytes_max: int, added: int = STAMP_BYTES_MAX
) -> Iterator[list[Waiting]]:
    """Divide records of one partition into batches of so many bytes, in order.

    `added` is what a record grows by.
    """
    part: list[Waiting] = []
    size = BATCH_HEADER_BYTES
    for one in records:
        grown = one.bytes_max + added
        if part and size + grown > bytes_max:
            yield part
            part, size = [], BATCH_HEADER_BYTES
        part.append(one)
        size += grown
    if part:
        yield part
