"""Counters of one API, and what they are made of; read by the metrics page at scrape time.

Times are split by stage: `local` is handling on the loop, `remote` is waiting for acknowledgement,
disk or data until the answer is made. Requests sent behind an unanswered one are counted and not
timed. A histogram has one bucket per power of two of microseconds: the index is the bit length of
the value, so observing costs one list increment.

Everything here is touched by the event loop alone.
"""

from __future__ import annotations

import logging
from typing import Protocol

LONG_TURN_US = 100_000
"""A handler that holds the loop for so long is told in the log."""

BUCKET_COUNT = 27
"""Up to 2^26 us = 67 s; what takes longer is counted in the last bucket."""

NOT_TIMED = -1
"""Of an answer whose handler has not returned, or that was not timed."""

log = logging.getLogger(__name__)


class Histogram:
    """Microseconds in buckets by power of two: bucket b holds values below 2^b."""

    __slots__ = ("buckets", "total_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKET_COUNT
        self.total_us = 0

    def observe(self, value_us: int) -> None:
        """Count one duration, taken from a clock that never goes back."""
        slot = value_us.bit_length()
        self.buckets[slot if slot < BUCKET_COUNT else -1] += 1
        self.total_us += value_us

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.buckets)


class LongestTurn:
    """For how long one API held the loop at most, in this window of time and in the last one."""

    __slots__ = ("_before_us", "_is_loaded", "_name", "longest_us")

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_loaded = False
        """Its first turn has the schemas of its messages read in: one of a kind, and no news."""
        self._before_us = 0
        self.longest_us = 0

    def note(self, microseconds: int) -> None:
        """Take one turn into account; says so when it was a long one, save for the first."""
        self.longest_us = max(self.longest_us, microseconds)
        is_loaded, self._is_loaded = self._is_loaded, True
        if microseconds >= LONG_TURN_US and is_loaded:
            log.warning("api=%s held the loop for %d ms", self._name, microseconds // 1000)

    def next_window(self) -> None:
        """Forget the window before this one."""
        self._before_us, self.longest_us = self.longest_us, 0

    @property
    def us(self) -> int:
        """The longest of both windows."""
        return max(self.longest_us, self._before_us)


class Measure(Protocol):
    """Where what a request takes is noted: of its API, and of its client where somebody asks."""

    @property
    def times_all(self) -> bool:
        """Whether each request is timed, those behind unanswered ones, too."""

    def received(self, size: int, count: int = 1) -> None: ...

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None: ...

    def handled(self, microseconds: int) -> None: ...

    def took_turn(self, microseconds: int) -> None: ...


class ApiStats:
    """Counters of one API key; a `Measure` of all clients together (usage.py: of each)."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "errors",
        "local",
        "name",
        "remote",
        "requests",
        "turns",
    )
    times_all = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.errors = 0
        self.bytes_in = 0
        self.bytes_out = 0
        """On the wire: with headers and size fields."""
        self.local = Histogram()
        self.remote = Histogram()
        self.turns = LongestTurn(name)

    def received(self, size: int, count: int = 1) -> None:
        """So many requests came, of so many bytes together."""
        self.requests += count
        self.bytes_in += size

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None:
        """An answer, or those of a run, leaves, so long after its handler returned."""
        self.bytes_out += size
        if waited_us != NOT_TIMED:
            self.remote.observe(waited_us)

    def handled(self, microseconds: int) -> None:
        """A handler has returned."""
        self.local.observe(microseconds)
        if microseconds > self.turns.longest_us:
            self.turns.note(microseconds)

    def took_turn(self, microseconds: int) -> None:
        """A part of a request held the loop."""
        self.turns.note(microseconds)
