"""One entry of the log, and the three kinds of entries.

Source: Raft paper 5.3 (index and term), 6 and 8 (configurations and the empty entry of a new
leader). What a payload means is the state machine's business.
"""

from dataclasses import dataclass
from enum import IntEnum

from penstock.raft.ids import RaftIndex, Term


class EntryKind(IntEnum):
    """Kind of an entry; the numbers are those on disk and on the wire."""

    NORMAL = 0
    """A payload for the state machine."""
    NOOP = 1
    """The first entry of every leader; its commit commits everything before it."""
    CONFIGURATION = 2
    """The payload is a Configuration (configuration.py); in force as soon as it is in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`index` counts from 1 without gaps; `term` is that of the leader that made the entry."""

    index: RaftIndex
    term: Term
    kind: EntryKind = EntryKind.NORMAL
    payload: bytes = b""

    @property
    def bytes_count(self) -> int:
        """Approximate size of the entry in a message and in memory."""
        return len(self.payload) + ENTRY_OVERHEAD_BYTES


ENTRY_OVERHEAD_BYTES = 32
"""Counted on top of the payload, so that empty entries do not count as free."""
