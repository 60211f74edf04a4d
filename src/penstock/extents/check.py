"""Reads a whole extent file and says whether it is what it says it is.

    every byte         belongs to exactly one part, and the checksum of that part agrees
    every batch        its own CRC; offsets and leader epochs that never fall
    every summary      first offsets, times and epochs of the batches that are there; of a rewritten
                       range batches may be missing, and each is of the epoch that is noted there
    every entry        offsets, counts and bytes of its batches

Source: as `penstock log verify` for commit logs, inspection/verify.py.
"""

from bisect import bisect_right
from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.base.ids import EpochStart, LeaderEpoch
from penstock.extents.errors import CorruptExtentFile
from penstock.extents.layout import HEADER_BYTES, Entry
from penstock.extents.reader import (
    Directory,
    Read,
    Summary,
    batches_of,
    read_block,
    read_directory,
    read_file_header,
    read_summary,
)


def check_extent_file(path: str, size_bytes: int, read: Read) -> Directory:
    """Return the directory of a file of `size_bytes` in which everything agrees.

    Reads all of it, a block at a time. Raises CorruptExtentFile, NewerExtentFile.
    """
    steps = checking(path, size_bytes, read)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            directory: Directory = end.value
            return directory


def checking(path: str, size_bytes: int, read: Read) -> Generator[int, None, Directory]:
    """Check the same with a block a step, which yields how many bytes it has read."""
    read_file_header(path, read)
    directory = read_directory(path, size_bytes, read)
    _check_places(path, directory)
    yield size_bytes - directory.at + HEADER_BYTES
    for entry in directory.entries:
        yield from _check_extent(path, entry, read)
    return directory


def _check_places(path: str, directory: Directory) -> None:
    """Raise CorruptExtentFile unless extents and then summaries follow without a gap."""
    entries = directory.entries
    extents = [(entry.extent_at, entry.extent_bytes) for entry in entries]
    summaries = [(entry.summary_at, entry.summary_bytes) for entry in entries]
    at = HEADER_BYTES
    for begin, size in [*extents, *summaries]:
        if begin != at:
            raise CorruptExtentFile(path, at, f"nothing is said of bytes {at} to {begin}")
        at = begin + size
    if at != directory.at:
        raise CorruptExtentFile(path, at, f"nothing is said of bytes {at} to {directory.at}")


def _check_extent(path: str, entry: Entry, read: Read) -> Generator[int, None, None]:
    summary = read_summary(path, entry, read)
    yield entry.summary_bytes
    blocks = summary.blocks
    epochs: list[_Batches] = []
    count, end_offset, first_timestamp = 0, entry.first_offset, 0
    newest = []
    for block, at in enumerate(blocks.places):
        first_offset, times = -1, []
        for header, _ in batches_of(path, at, read_block(path, blocks, block, read)):
            if header.base_offset < end_offset:
                raise CorruptExtentFile(path, at, f"offset {header.base_offset} comes again")
            first_offset = header.base_offset if first_offset < 0 else first_offset
            first_timestamp = header.base_timestamp if not count else first_timestamp
            if not epochs or epochs[-1].leader_epoch != header.leader_epoch:
                epochs.append(_Batches(header.leader_epoch, header.base_offset, -1))
            epochs[-1] = epochs[-1]._replace(last=header.base_offset)
            times.append(header.max_timestamp)
            end_offset = header.last_offset + 1
            count += 1
        newest.append(max(times))
        if first_offset != blocks.first_offsets[block]:
            raise CorruptExtentFile(path, at, f"block {block} begins at offset {first_offset}")
        yield blocks.stored_bytes[block]
    _check_against(path, entry, summary, (newest, epochs))
    said = entry.batch_count, entry.end_offset, entry.first_timestamp
    if (count, end_offset, first_timestamp) != said:
        reason = f"{count} batches up to offset {end_offset}, not as {entry} says"
        raise CorruptExtentFile(path, entry.extent_at, reason)


def _check_against(
    path: str,
    entry: Entry,
    summary: Summary,
    found: tuple[list[int], "list[_Batches]"],
) -> None:
    """Raise CorruptExtentFile unless the summary has the times and epochs of the batches."""
    newest, epochs = found
    noted = list(summary.notes.epochs)
    are_right = [one[:2] for one in epochs] == noted
    if entry.generation:
        are_right = _tells(entry, noted, epochs)
    if newest != list(summary.blocks.max_timestamps) or not are_right:
        raise CorruptExtentFile(path, entry.summary_at, "times or epochs are not the batches'")
    columns = [epoch for epoch, _ in noted], [start for _, start in noted], _markers(summary)
    if any(_falls(column) for column in columns):
        raise CorruptExtentFile(path, entry.summary_at, "epochs or markers go back")


class _Batches(NamedTuple):
    """Batches of one leader epoch: the base offsets of the first one and of the last."""

    leader_epoch: LeaderEpoch
    first: int
    last: int


def _tells(entry: Entry, noted: list[EpochStart], found: list[_Batches]) -> bool:
    """Whether the notes of a rewritten range begin with it, and say of each batch its epoch."""
    starts = [start for _, start in noted]
    if not starts or starts[0] != entry.first_offset or starts[-1] >= entry.end_offset:
        return False

    def epoch_at(offset: int) -> int:
        return noted[bisect_right(starts, offset) - 1][0]

    return all(epoch_at(one.first) == one.leader_epoch == epoch_at(one.last) for one in found)


def _markers(summary: Summary) -> Sequence[int]:
    return summary.notes.aborted.marker_offsets


def _falls(numbers: Sequence[int]) -> bool:
    return any(before >= after for before, after in pairwise(numbers))
