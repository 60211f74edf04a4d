"""Counters of one API and the types they consist of; read by the metrics page at scrape time.

Times are split by stage: `local` is handling on the loop; `remote` is waiting for acknowledgements,
the disk or data until the answer is made. Requests pipelined behind an unanswered one are counted
and not timed. A histogram has one bucket per power of two of microseconds: the index is the bit
length of the value, so that observing costs one list increment.

Everything here is used on the event loop only.
"""

from __future__ import annotations

import logging
from typing import Protocol

LONG_TURN_US = 100_000
"""A handler that holds the loop for so long is logged."""

BUCKET_COUNT = 27
"""Up to 2^26 us = 67 s; longer times are counted in the last bucket."""

NOT_TIMED = -1
"""For an answer whose handler has not returned, or that was not timed."""

log = logging.getLogger(__name__)


class Histogram:
    """Microseconds in buckets by power of two: bucket b holds values below 2^b."""

    __slots__ = ("buckets", "total_us")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKET_COUNT
        self.total_us = 0

    def observe(self, value_us: int) -> None:
        """Count one duration of a monotonic clock, in microseconds."""
        slot = value_us.bit_length()
        self.buckets[slot if slot < BUCKET_COUNT else -1] += 1
        self.total_us += value_us

    @property
    def count(self) -> int:
        """Number of observed values."""
        return sum(self.buckets)


class LongestTurn:
    """The longest time that one API held the loop, in the current time window and the last one."""

    __slots__ = ("_before_us", "_is_loaded", "longest_us", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_loaded = False
        """The first slice of an API imports its message schemas, which is slow and not logged."""
        self._before_us = 0
        self.longest_us = 0

    def note(self, microseconds: int) -> None:
        """Count one slice; log it if it was long, except the first."""
        self.longest_us = max(self.longest_us, microseconds)
        is_loaded, self._is_loaded = self._is_loaded, True
        if microseconds >= LONG_TURN_US and is_loaded:
            log.warning("api=%s held the loop for %d ms", self.name, microseconds // 1000)

    def next_window(self) -> None:
        """Begin a new window; the one before the last is dropped."""
        self._before_us, self.longest_us = self.longest_us, 0

    @property
    def us(self) -> int:
        """The longest slice in both windows, in microseconds."""
        return max(self.longest_us, self._before_us)


class Measure(Protocol):
    """Receives the costs of a request: counters of its API, and the audit's rows of its client."""

    def received(self, size: int, count: int = 1) -> None: ...

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None: ...

    def handled(self, microseconds: int) -> None: ...

    def took_turn(self, microseconds: int) -> None: ...

    def throttled(self, delay_ms: int) -> None: ...


class ApiStats:
    """Counters of one API key: a `Measure` for all clients together."""

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

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = 0
        self.errors = 0
        self.bytes_in = 0
        self.bytes_out = 0
        """Bytes on the wire, including headers and size fields."""
        self.local = Histogram()
        self.remote = Histogram()
        self.turns = LongestTurn(name)

    def received(self, size: int, count: int = 1) -> None:
        """Count `count` requests of `size` bytes together."""
        self.requests += count
        self.bytes_in += size

    def answered(self, size: int, waited_us: int = NOT_TIMED) -> None:
        """Count a sent answer, or those of a run, `waited_us` after the handler returned."""
        self.bytes_out += size
        if waited_us != NOT_TIMED:
            self.remote.observe(waited_us)

    def handled(self, microseconds: int) -> None:
        """Count a handler that has returned."""
        self.local.observe(microseconds)
        if microseconds > self.turns.longest_us:
            self.turns.note(microseconds)

    def took_turn(self, microseconds: int) -> None:
        """Count one slice of a request on the loop."""
        self.turns.note(microseconds)

    def throttled(self, delay_ms: int) -> None:
        """Take the delay that a client was told; the quotas count it (quotas/table.py)."""
