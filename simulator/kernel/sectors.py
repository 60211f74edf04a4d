"""Which parts of the changes of a file reach the disk when the power fails.

    write   sector by sector (512 bytes); a sector is on the disk as it was at some moment
    size    like an entry of the file system's journal: a newer one is kept only with older ones

A sector has the contents of the page cache when it was written back, so that a newer change of a
sector is never kept without the older ones. Sectors are independent of each other.

Source: the page cache and ordered journal of ext4. Torn sectors are not simulated.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

SECTOR = 512

Change = tuple[int, bytes | None]
"""Bytes at a position; or, without bytes, a new size."""

Keep = Callable[[int, int], bool]
"""Whether a change, by its number, reaches the disk in a sector; SIZE where it is a size."""
SIZE = -1


def apply_changes(
    content: bytearray, changes: Sequence[Change], keep: Keep | None = None
) -> bytearray:
    """Change `content`, by all changes or by what is kept of them; returns what it is then."""
    for number, (position, data) in enumerate(changes):
        if data is None:
            if keep is None or keep(number, SIZE):
                content = resized(content, position)
        elif keep is None:
            _put(content, position, data)
        else:
            _put_sectors(content, position, data, partial(keep, number))
    return content


def resized(content: bytearray, size: int) -> bytearray:
    """Return `content` cut, or with zeros behind it."""
    if not content:
        return bytearray(size)  # memory that nobody writes to is never touched
    if size > len(content):
        content.extend(bytes(size - len(content)))
    else:
        del content[size:]
    return content


def _put(content: bytearray, position: int, data: bytes | memoryview) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _put_sectors(
    content: bytearray, position: int, data: bytes, is_kept: Callable[[int], bool]
) -> None:
    view = memoryview(data)
    at, end = position, position + len(data)
    while at < end:
        sector = at // SECTOR
        stop = min(end, (sector + 1) * SECTOR)
        if is_kept(sector):
            _put(content, at, view[at - position : stop - position])
        at = stop


def random_keep(rng: Random, changes: Sequence[Change]) -> Keep | None:
    """Draw what a loss of power keeps: nothing, all (None), the oldest changes, or any sectors."""
    kind = rng.choice(("nothing", "all", "oldest", "oldest", "sectors", "sectors"))
    if not changes or kind == "all":
        return None
    if kind == "nothing":
        return lambda _number, _sector: False
    return _oldest(rng, changes) if kind == "oldest" else random_sectors(rng, changes)


def _oldest(rng: Random, changes: Sequence[Change]) -> Keep:
    """Changes up to one of them, of which the first sectors are kept."""
    torn = rng.randrange(len(changes))
    position, data = changes[torn]
    first, last = position // SECTOR, (position + len(data or b"")) // SECTOR
    stop = rng.randint(first, last + 1)
    return lambda number, sector: number < torn or (number == torn and SIZE < sector < stop)


def random_sectors(rng: Random, changes: Sequence[Change], *, has_sizes: bool = False) -> Keep:
    """Every sector as it was at some moment; sizes up to some moment, or all of them."""
    count = len(changes)
    share = rng.choice((0.1, 0.5, 0.9))
    moments: dict[int, int] = {SIZE: count if has_sizes else rng.randint(0, count)}

    def is_kept(number: int, sector: int) -> bool:
        moment = moments.get(sector)
        if moment is None:
            moment = count if rng.random() < share else rng.randint(0, count)
            moments[sector] = moment
        return number < moment

    return is_kept
