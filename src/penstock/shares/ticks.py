"""Times of holders and pauses, in ticks of 100 ms since 2026, and what is due.

    add(tick, first, count) ─► bucket of the tick: array of (first offset << 16 | count)

Nothing is removed when a record is accepted or its time prolonged: an entry only says where to
look. So a hand-out of many records is one entry of 8 bytes, and accepting costs nothing here. The
share compares each entry with its cells (`due.py`). Where members prolong their time, or hand
records back and get them again, entries of the past pile up: then the share thins them out.

Source: a lazy calendar queue; Kafka has a timer task for each acquired batch, whose races with
acknowledgements are KAFKA-19476 and KAFKA-18084.
"""

import heapq
from array import array
from collections.abc import Iterator

from penstock.shares.runs import Run

TICK_MS = 100
FIRST_MS = 1_767_225_600_000
"""2026-01-01, as wall time. Ticks have 32 bits: they end in 2039."""
TICK_MAX = 0xFFFF_FFFF
_COUNT_BITS = 16
_COUNT_MAX = (1 << _COUNT_BITS) - 1
IDLE_MAX = 8_192
"""Offsets that may be looked at in vain, beside as many as there are records with a time: 5 ms."""


def tick_of(wall_ms: int) -> int:
    """Return the tick that has begun at a wall time, in milliseconds."""
    return min(max((wall_ms - FIRST_MS) // TICK_MS, 0), TICK_MAX)


def ticks_in(duration_ms: int) -> int:
    """Return how many ticks a duration takes, rounded up: nothing is due early."""
    return -(-duration_ms // TICK_MS)


class Timers:
    """Where something may be due, by tick."""

    __slots__ = ("_buckets", "_limit", "_ticks", "count", "offsets")

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}
        self._ticks: list[int] = []
        self._limit = IDLE_MAX
        self.count = 0
        """Entries, 8 bytes each."""
        self.offsets = 0
        """Offsets of all entries: one that was added twice counts twice."""

    @property
    def is_crowded(self) -> bool:
        """Whether most entries are of the past, so that they are worth to be looked at."""
        return self.offsets > self._limit

    def entries(self, base: int) -> Iterator[tuple[int, list[Run]]]:
        """Yield the ticks, the earliest first, with the entries that reach beyond `base`.

        Most do not where records are accepted soon, so that those take no more than a look.
        """
        for tick in sorted(self._ticks):
            bucket = self._buckets[tick]
            left = [e for e in bucket if (e >> _COUNT_BITS) + (e & _COUNT_MAX) > base]
            firsts = [(entry >> _COUNT_BITS, entry & _COUNT_MAX) for entry in left]
            yield tick, [(first, first + count) for first, count in firsts]

    def thinned(self) -> None:
        """Note that there is only one entry for each offset."""
        self._limit = IDLE_MAX + 2 * self.offsets

    def add(self, tick: int, first: int, count: int) -> None:
        """Have `count` offsets from `first` looked at when the tick is over."""
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = array("Q")
            heapq.heappush(self._ticks, tick)
        self.offsets += count
        while count > _COUNT_MAX:
            bucket.append(first << _COUNT_BITS | _COUNT_MAX)
            first, count = first + _COUNT_MAX, count - _COUNT_MAX
            self.count += 1
        bucket.append(first << _COUNT_BITS | count)
        self.count += 1

    def next_tick(self) -> int | None:
        """Return the earliest tick with entries."""
        return self._ticks[0] if self._ticks else None

    def pop_due(self, now: int, count_max: int) -> Run | None:
        """Remove and return a run of at most `count_max` offsets whose tick is over by `now`."""
        if not self._ticks or self._ticks[0] > now:
            return None
        bucket = self._buckets[self._ticks[0]]
        entry = bucket.pop()
        first, count = entry >> _COUNT_BITS, entry & _COUNT_MAX
        if count > count_max:
            bucket.append((first + count_max) << _COUNT_BITS | (count - count_max))
            self.offsets -= count_max
            return first, first + count_max
        self.offsets -= count
        self.count -= 1
        if not bucket:
            del self._buckets[heapq.heappop(self._ticks)]
        return first, first + count

    def clear(self) -> None:
        """Forget everything."""
        self._buckets.clear()
        self._ticks.clear()
        self.count, self.offsets, self._limit = 0, 0, IDLE_MAX
