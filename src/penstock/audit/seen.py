"""Tells rows that were read before, by the numbers that their writers count.

    writer "1:1700000000000"    numbers 0..199, 400..412     two ranges, whatever they hold

A writer counts its rows without gaps, so that few ranges say which were seen. Beyond RANGES_MAX all
is forgotten: a row that comes again then counts twice, and `forgot` says so.

Source: docs/formats/audit.md for the keys.
"""

from bisect import bisect_right
from typing import Final

RANGES_MAX: Final = 100_000
"""Some 20 MB."""


class Seen:
    """See the module; for one reader."""

    def __init__(self, most: int = RANGES_MAX) -> None:
        self._bounds: dict[bytes, list[int]] = {}
        """By writer: start (inclusive) and end (exclusive) of each range, in order."""
        self._count = 0
        self._most = most
        self.forgot = 0
        """Times that all was forgotten."""

    def is_new(self, key: bytes | None) -> bool:
        """Note the row of this key; return whether it was not seen before.

        What is no key of a row is always new.
        """
        writer, _, text = (key or b"").rpartition(b":")
        if not writer or not text.isdigit():
            return True
        number = int(text)
        bounds = self._bounds.setdefault(writer, [])
        at = bisect_right(bounds, number)
        if at % 2:
            return False
        follows = at > 0 and bounds[at - 1] == number
        precedes = at < len(bounds) and bounds[at] == number + 1
        if follows and precedes:
            del bounds[at - 1 : at + 1]
        elif follows:
            bounds[at - 1] = number + 1
        elif precedes:
            bounds[at] = number
        else:
            bounds[at:at] = [number, number + 1]
        self._count += 1 - follows - precedes
        if self._count > self._most:
            self._bounds.clear()
            self._count = 0
            self.forgot += 1
        return True
