"""How fast a housekeeper may read and write: it follows the syncs of the data path.

    syncs of the last seconds                      level 0 fits      level 0 runs short
      slow: 1 of 100 took `sync_us_max` or more    halved            halved
      quiet: QUIET_LOOKS looks in a row            doubled           doubled
      bounds                                       base/16 to base   base to 4 x base

The base is what the setting allows. Producers wait for syncs, and a housekeeper has no one who
waits for it, so it gives way. But what it does not move in time stays on the disk twice or for
longer than allowed: when level 0 runs short it never falls below the base, and may exceed it.

Times come as counts by power of two, as a disk counts its syncs; the caller brings them.

Source: docs/adr/0104 (the base); the halving is that of TCP (RFC 5681), which gives way fast and
comes back slowly. Kafka's cleaner has a fixed rate (`log.cleaner.io.max.bytes.per.second`).
"""

from collections.abc import Sequence

SLOW_SHARE = 100
"""One in so many syncs makes them slow: the 99th percentile."""
WINDOW_LOOKS = 5
"""Looks whose syncs are judged together; after a halving as many pass before the next one."""
QUIET_LOOKS = 5
FLOOR_SHARE = 16
"""The housekeeper is never slower than this part of its base: some work is always done."""
SHORT_FACTOR = 4


def slow_count(buckets: Sequence[int], sync_us_max: int) -> int:
    """Return how many took `sync_us_max` or longer; bucket b holds values below 2^b.

    The bound is rounded up to a power of two, since buckets are not divided.
    """
    return sum(buckets[(sync_us_max - 1).bit_length() + 1 :]) if sync_us_max > 0 else 0


class Pace:
    """The rate of one housekeeper in bytes per second; 0 is no bound, and stays so."""

    def __init__(self, base: int, sync_us_max: int) -> None:
        """With `sync_us_max` 0 it does not look at syncs."""
        self._base = base
        self._sync_us_max = sync_us_max
        self._seen: list[Sequence[int]] = []
        """The counts of the last looks, oldest first."""
        self._looks_since_change = 0
        self.rate = base

    def look(self, buckets: Sequence[int], *, is_short: bool) -> int:
        """Take the counts of all syncs so far; return the rate from now on.

        `is_short`: level 0 holds more than it should. Called about every second.
        """
        if not self._base:
            return 0
        is_slow = self._is_slow(buckets)
        self._looks_since_change += 1
        if is_slow and (self._looks_since_change >= WINDOW_LOOKS or self.rate > self._base):
            self._change(self.rate // 2)
        elif not is_slow and self._looks_since_change >= QUIET_LOOKS:
            self._change(self.rate * 2)
        lowest = self._base if is_short else max(1, self._base // FLOOR_SHARE)
        highest = self._base * SHORT_FACTOR if is_short else self._base
        self.rate = min(max(self.rate, lowest), highest)
        return self.rate

    def _change(self, rate: int) -> None:
        self.rate = rate
        self._looks_since_change = 0

    def _is_slow(self, buckets: Sequence[int]) -> bool:
        """Whether too many syncs of the window were slow; without syncs nobody waits."""
        self._seen.append(tuple(buckets))
        if len(self._seen) > WINDOW_LOOKS + 1:
            del self._seen[0]
        if len(self._seen) == 1 or not self._sync_us_max:
            return False
        window = [now - then for now, then in zip(buckets, self._seen[0], strict=True)]
        slow = slow_count(window, self._sync_us_max)
        return slow * SLOW_SHARE > sum(window) and slow > 0
