"""Extent files of which half or less is held are written anew without the rest.

    file     [ a a a | b | c c c ]      a and c are not held any more: retention, a log start
    anew     [ b ]                      in the place of the file, which goes

Retention drops extents, and a file goes with its last one. Its extents are of many partitions: of
topics that are kept for days and for years, and of internal ones, a few records of which are in
nearly every file. So files are shrunk: what is held is copied, byte for byte and extent by extent.

A file is shrunk when what is not held of it is at least as much as what is, and at least a 256th
of `log.segment_bytes`. So what copying writes is never more than what it frees, and all copies of a
second level together are never more than what was moved there.

Files with ranges that cleaning has rewritten are left to cleaning, which makes them anew, and those
that are known to be damaged to their repair.

Source: docs/adr/0130; the copy and the exchange are those of docs/adr/0109.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.base.ids import Offset
from penstock.base.ports import Disk
from penstock.extents.errors import ExtentError
from penstock.extents.layout import ENTRY, ENTRY_BYTES, Entry
from penstock.storage.config import LogConfig
from penstock.storage.errors import ExtentDamaged
from penstock.storage.second_level.damage import ExtentDamage
from penstock.storage.second_level.files import load_directory
from penstock.storage.second_level.held import Extent, HeldExtents
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.rebuild import Missing, Rebuild
from penstock.storage.second_level.split import Identity

SEGMENT_PART = 256


class Kept(NamedTuple):
    """What is held of a file: columns of equal length."""

    numbers: Sequence[int]
    """Of the entries in its directory, rising."""
    end_offsets: Sequence[int]
    """Exclusive; below that of the entry where the partition was cut."""


class ShrinkPlan(NamedTuple):
    """Which file is to be written anew, and what of it."""

    directory: str
    """Of the log, in the data directory."""
    file_number: int
    kept: Kept
    batch_bytes: int
    """Of the batches that are kept, about."""
    reserve_bytes: int
    """To be left free on the disk."""


Planned = Callable[[ShrinkPlan | None], None]
InSlices = Callable[[Iterator[None], Callable[[], None]], None]
"""in_slices(steps, then): does the steps, some in each turn, and calls `then` behind the last."""


class Shrinking:
    """Tells which file of one second level is to be shrunk next. Used on the loop."""

    def __init__(
        self,
        directory: str,
        held: Callable[[], HeldExtents],
        damage: ExtentDamage,
        in_slices: InSlices,
    ) -> None:
        """`held()` returns what the level holds now."""
        self._directory = directory
        self._held = held
        self._damage = damage
        self._in_slices = in_slices

    @property
    def held_bytes(self) -> int:
        """Bytes of all extents that are held, with what their files tell of them."""
        return self._held().files.held_bytes

    def next_file(self, config: LogConfig) -> int | None:
        """Return the number of the oldest file that is to be shrunk; None if none is."""
        return self._held().files.wasteful(least_bytes(config), self._damage.files)

    def plan(self, file_number: int, config: LogConfig, done: Planned) -> None:
        """Tell what of a file is to be kept: `done(plan)`, at once or later; None: it is gone."""
        numbers, ends = array("I"), array("q")
        size = 0

        def collecting() -> Iterator[None]:
            nonlocal size
            for number, extent in self._held().in_file(file_number):
                if extent is not None:
                    numbers.append(number)
                    ends.append(extent.end_offset)
                    size += extent.batch_bytes
                yield

        def collected() -> None:
            plan = ShrinkPlan(
                self._directory, file_number, Kept(numbers, ends), size, config.reserve_bytes
            )
            done(plan if numbers else None)

        self._in_slices(collecting(), collected)

    def is_held(self, file_number: int) -> bool:
        """Whether anything is held of a file."""
        return file_number in self._held().files


def least_bytes(config: LogConfig) -> int:
    """Return how much of a file has to be needless, at least, before it is shrunk."""
    return max(config.segment_bytes // SEGMENT_PART, 1)


def shrink_file(
    disk: Disk,
    directory: str,
    file_number: int,
    kept: Kept,
    *,
    unfinished: str,
    identity: Identity,
) -> int:
    """Write what is kept of a file to `unfinished`; return the bytes of the batches.

    Its bytes are durable. Waits for the disk. Raises ExtentDamaged: it can not be read, or has not
    what is to be kept; OSError. The unfinished file is removed again then.
    """
    place = ExtentPlace(disk, directory)
    extents = _extents(place, file_number, kept)
    rebuild = Rebuild(place, file_number, extents, unfinished=unfinished, identity=identity)
    try:
        while step := rebuild.go_on():
            _check_is_there(file_number, step)
    except BaseException:
        rebuild.close()
        disk.remove(unfinished)
        raise
    return rebuild.copied_bytes


def _check_is_there(file_number: int, step: Missing | bool) -> None:
    """Raise ExtentDamaged if other members would have to give batches."""
    if isinstance(step, Missing):
        offsets = f"{step.start_offset} to {step.end_offset} of {step.topic_partition}"
        reason = f"offsets {offsets} can not be read from extent file {file_number}"
        raise ExtentDamaged(file_number, reason)


def _extents(place: ExtentPlace, file_number: int, kept: Kept) -> list[Extent]:
    """Return what is to be kept, with the entries of the file. Raises as shrink_file."""
    try:
        data = load_directory(place, file_number).data
    except (ExtentError, FileNotFoundError) as error:
        raise ExtentDamaged(file_number, str(error)) from error
    count = len(data) // ENTRY_BYTES
    if any(number >= count for number in kept.numbers):
        raise ExtentDamaged(file_number, f"file {file_number} has {count} extents only")
    entries = (Entry(*ENTRY.unpack_from(data, number * ENTRY_BYTES)) for number in kept.numbers)
    return [
        Extent(file_number, entry, Offset(entry.first_offset), Offset(end))
        for entry, end in zip(entries, kept.end_offsets, strict=True)
    ]
