"""Where the bytes of objects come from: the log of a master, as whoever uploads sees it.

Source: docs/adr/0117.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.base.ports import Buffer
from penstock.extents.layout import Entry
from penstock.tier.copies.effects import CopiedLog, Plan


class Image(NamedTuple):
    """An extent file in memory, with exactly what a plan says."""

    file: Sequence[Buffer]
    entries: tuple[Entry, ...]
    """Its directory."""
    epochs: tuple[tuple[tuple[int, int], ...], ...]
    """Those in the notes of each entry: (leader epoch, first offset)."""


class Source(CopiedLog, Protocol):
    """A log that gives what it has, too."""

    async def build(self, plan: Plan) -> Image:
        """Return an object's file. Raises PlatformError: the log does not give it, now or at all.

        It may be cancelled.
        """
