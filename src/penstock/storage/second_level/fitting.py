"""Whether the extents of a new file fit what is held: no offset may be lost by taking it over.

    as produced    begins where the partition's extents end, or anew at or below the log start
    rewritten      begins where they begin, or below, ends within them, and is newer than they are

Source: docs/adr/0103, docs/adr/0108.
"""

from collections.abc import Callable, Iterator

from penstock.base.ids import TopicPartition
from penstock.extents.layout import ENTRY, Entry
from penstock.storage.second_level.held import HeldExtents

LogStartOf = Callable[[TopicPartition], int]


def misfits(held: HeldExtents, directory: bytes, log_start_of: LogStartOf) -> Iterator[str | None]:
    """Look at an extent of a directory with each step; yield what is wrong with it, or None."""
    before: TopicPartition | None = None
    for fields in ENTRY.iter_unpack(directory):
        entry = Entry(*fields)
        key = entry.topic_partition
        if not entry.generation:
            yield _misfit_as_produced(held, entry, log_start_of(key))
        else:
            yield _misfit_rewritten(held, entry, is_first=key != before)
        before = key


def _misfit_as_produced(held: HeldExtents, entry: Entry, log_start: int) -> str | None:
    here = held.held(entry.topic_partition)
    is_next = here is not None and here.end_offset == entry.first_offset
    is_anew = entry.first_offset <= log_start
    is_anew = is_anew and (here is None or here.end_offset <= log_start)
    if is_next or is_anew:
        return None
    return f"offset {entry.first_offset} of {entry.topic_partition} does not follow"


def _misfit_rewritten(held: HeldExtents, entry: Entry, *, is_first: bool) -> str | None:
    """Look at one extent of a range; those of one partition follow each other."""
    here = held.held(entry.topic_partition)
    is_within = here is not None and entry.end_offset <= here.end_offset
    begins = here is not None and (not is_first or entry.first_offset <= here.start_offset)
    present = held.of(entry.topic_partition, entry.first_offset, entry.end_offset)
    is_newer = all(extent.entry.generation < entry.generation for extent in present)
    if is_within and begins and is_newer:
        return None
    offsets = f"{entry.first_offset} to {entry.end_offset} of {entry.topic_partition}"
    return f"offsets {offsets} were not made of what is held"
