"""The extent files of which something is held: their directories, and how much is left of each.

    extents of a file are taken ─► let go, one after the other ─► half or less is held: wasteful
      ─► none is held: forgotten, and removed by whoever holds them (store.py)

An extent is named by its place: the number of its file, and that of its entry in the directory.

Source: docs/adr/0103, docs/adr/0130.
"""

from collections.abc import Container, Iterable

from penstock.extents.layout import ENTRY, ENTRY_BYTES, Entry

_FILE_BITS = 32
_ENTRY_MASK = (1 << _FILE_BITS) - 1


def place_of(file_number: int, number: int) -> int:
    """Return the place of an entry, which fits into 64 bits."""
    return file_number << _FILE_BITS | number


def file_of(place: int) -> int:
    """Return the number of the file of a place."""
    return place >> _FILE_BITS


def file_bytes_of(entry: Entry) -> int:
    """Return what an extent takes of its file, bytes: batches, summary and entry."""
    return entry.extent_bytes + entry.summary_bytes + ENTRY_BYTES


class _File:
    """A file of which something is held."""

    __slots__ = ("directory", "extent_bytes", "held_bytes", "held_count", "is_rewritten")

    def __init__(self, directory: bytes) -> None:
        self.directory = directory
        self.held_count = len(directory) // ENTRY_BYTES
        self.extent_bytes = 0
        """Of all its extents, as far as they were taken."""
        self.held_bytes = 0
        """Of those that are held."""
        self.is_rewritten = False
        """Whether cleaning has made extents of it."""

    def is_wasteful(self, least_bytes: int) -> bool:
        """Whether so much, and half of it or more, is of extents that are not held."""
        needless = self.extent_bytes - self.held_bytes
        return not self.is_rewritten and needless >= max(least_bytes, self.held_bytes)


class HeldFiles:
    """The files of one second level."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._half_held: set[int] = set()
        """Those of which half or less is held, but for those that cleaning has made."""
        self.held_bytes = 0
        """Of all extents that are held, with their summaries and entries."""

    def add(self, file_number: int, directory: bytes) -> int:
        """Add a file whose extents are to be taken, each of them; return how many there are."""
        file = self._files[file_number] = _File(directory)
        return file.held_count

    def __contains__(self, file_number: int) -> bool:
        """Whether anything is held of a file."""
        return file_number in self._files

    def extent_count(self, file_number: int) -> int:
        """Return how many extents a file has, held or not; 0 if none is held."""
        file = self._files.get(file_number)
        return 0 if file is None else len(file.directory) // ENTRY_BYTES

    def entry(self, place: int) -> Entry:
        """Return the entry of an extent."""
        directory = self._files[file_of(place)].directory
        return Entry(*ENTRY.unpack_from(directory, (place & _ENTRY_MASK) * ENTRY_BYTES))

    def take(self, place: int) -> None:
        """Note that an extent is held from now on."""
        file, entry = self._files[file_of(place)], self.entry(place)
        size = file_bytes_of(entry)
        file.extent_bytes += size
        file.held_bytes += size
        self.held_bytes += size
        file.is_rewritten = file.is_rewritten or entry.generation > 0

    def let_go(self, places: Iterable[int]) -> list[int]:
        """Note that extents are held no more; return the files of which they were the last.

        These are forgotten.
        """
        gone = []
        for place in places:
            number = file_of(place)
            file, size = self._files[number], file_bytes_of(self.entry(place))
            file.held_count -= 1
            file.held_bytes -= size
            self.held_bytes -= size
            if not file.held_count:
                del self._files[number]
                self._half_held.discard(number)
                gone.append(number)
            elif file.is_wasteful(0):
                self._half_held.add(number)
        return gone

    def wasteful(self, least_bytes: int, passed_over: Container[int]) -> int | None:
        """Return the oldest file that is to be written anew without what is not held of it.

        One of which at least `least_bytes`, and at least as much as is held, is not held; None if
        there is none but those to be passed over. Cleaning makes its files anew by itself.
        """
        found = (
            number
            for number in self._half_held
            if self._files[number].is_wasteful(least_bytes) and number not in passed_over
        )
        return min(found, default=None)
