"""What is known of each offset in a share's window: columns of bytes and numbers, by the chunk.

    offset ──► chunk number = offset // CELLS, place in its columns = offset % CELLS

    states    u8   who may have the record, see below
    counts    u8   how often it was handed out; stays at COUNT_MAX
    nonces    u32  the number of the last hand-out
    dues      u32  tick at which the holder's time, or the pause, is over
    members   u16  number of the holder
    hashes    u32  of the key; 0 in a share without order
    nexts     u32  ordered shares: distance to the next record of the key that waits; 0 if none

    FREE ─► ACQUIRED ─► DONE                       accepted, filtered out, or never existed
      ▲        ├─────► DYING ─► DEAD               given up; DEAD once its copy is confirmed
      ├─ WAITING ◄┘                                handed back with a pause
      └─ HELD                                      ordered: an earlier record of its key is not over

A million offsets take 12 MB, ordered ones 20 MB; objects would take ten times as much.

Source: Kafka `InFlightState`, `RecordState` (KIP-932): an object for each batch or record.
"""

from array import array
from collections.abc import Iterator
from re import compile as compiled

from penstock.shares.runs import Run, runs_of

SHIFT = 12
CELLS = 1 << SHIFT
"""Offsets of one chunk: 50 KB, which a snapshot packs in about a millisecond."""
MASK = CELLS - 1
CHUNK_BYTES, ORDERED_CHUNK_BYTES = 12 * CELLS + 700, 20 * CELLS + 700
"""Memory of one, about."""

FREE, ACQUIRED, DONE, DEAD, HELD, WAITING, DYING = range(7)
STATE_COUNT = 7
COUNT_MAX = 255

PLUS_ONE = bytes([*range(1, COUNT_MAX + 1), COUNT_MAX])
"""Translates a count to the next one."""
NOTHING = bytes(CELLS)
_TIMED = compiled(b"[%c%c]+" % (ACQUIRED, WAITING))
_NO_U32 = array("I", bytes(4 * CELLS))
_NO_U16 = array("H", bytes(2 * CELLS))


class Chunk:
    """The columns of CELLS offsets. `free` counts the FREE ones within the window."""

    __slots__ = ("counts", "dues", "free", "hashes", "members", "nexts", "nonces", "states")

    def __init__(self, *, is_ordered: bool) -> None:
        self.states = bytearray(CELLS)
        self.counts = bytearray(CELLS)
        self.nonces = _NO_U32[:]
        self.dues = _NO_U32[:]
        self.members = _NO_U16[:]
        self.hashes = _NO_U32[:] if is_ordered else array("I")
        self.nexts = _NO_U32[:] if is_ordered else array("I")
        self.free = 0

    def order(self) -> None:
        """Have the columns of an ordered share, which a snapshot may tell only later."""
        if not self.hashes:
            self.hashes, self.nexts = _NO_U32[:], _NO_U32[:]

    def timed(self, i: int, j: int, tick: int, *, is_late: bool) -> Iterator[Run]:
        """Yield runs of places in [i, j) that wait for this tick; with `is_late` or one before."""
        for found in _TIMED.finditer(self.states, i, j):
            first, stop = found.span()
            dues = self.dues[first:stop]
            if dues.count(tick) == stop - first:
                yield first, stop
                continue
            numbered = enumerate(dues)
            places = [n for n, due in numbered if due == tick or (is_late and due < tick)]
            for start, end in runs_of(places):
                yield first + start, first + end

    def clear(self, first: int, end: int) -> None:
        """Forget the cells from place `first` to before place `end`."""
        count = end - first
        self.states[first:end] = NOTHING[:count]
        self.counts[first:end] = NOTHING[:count]
        for column in (self.nonces, self.dues):
            column[first:end] = _NO_U32[:count]
        self.members[first:end] = _NO_U16[:count]
        if self.hashes:
            self.hashes[first:end] = _NO_U32[:count]
            self.nexts[first:end] = _NO_U32[:count]
