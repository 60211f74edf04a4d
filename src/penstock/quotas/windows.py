"""A mean rate over the last windows, and how long to wait until it is the quota.

    second     t-10  t-9  ...  t-1  t      sum of 11 windows, of which the last one is open
               first of them that counts ──► now: the time that the sum is divided by

Time before the first amount does not count, but a second always does. What is older than the
windows is forgotten, so that silence saves up nothing beyond them.

Source: Kafka `Rate`, `SampledStat`, `QuotaUtils.throttleTime`; KIP-13. Departure: Kafka's time is
ten seconds at least, so that a new client may take ten seconds' worth at once, and so again every
eleven seconds; here the mean holds from the start (ADR 0115).
"""

import math
from typing import Final

WINDOWS: Final = 11
WINDOW_MS: Final = 1_000
"""Kafka's quota.window.num and quota.window.size.seconds."""
DELAY_MS_MAX: Final = (1 << 31) - 1
"""As much as an answer can say: 24 days."""


class Windows:
    """Amounts of one bucket by second. Times are milliseconds of a monotonic clock."""

    __slots__ = ("_amounts", "_began_ms", "_newest", "_sum", "bound", "delay_ms_max")

    def __init__(self, bound: float, delay_ms_max: int = DELAY_MS_MAX) -> None:
        """`bound` is the quota, in units a second; it may change."""
        self.bound = bound
        self.delay_ms_max = delay_ms_max
        self._amounts = [0.0] * WINDOWS
        self._newest = 0
        self._began_ms = -1
        """Time of the first amount that counts; -1 while there is none."""
        self._sum = 0.0

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount that is taken now, or given back at once where it is negative."""
        self._roll(now_ms)
        if self._began_ms < 0:
            self._began_ms = now_ms
        self._amounts[self._newest % WINDOWS] += amount
        self._sum += amount

    def rate(self, now_ms: int) -> float:
        """Return the mean, in units a second."""
        self._roll(now_ms)
        return self._sum * 1000 / self._elapsed_ms(now_ms)

    def delay_ms(self, now_ms: int) -> int:
        """Return after which time without more the mean is the quota; 0 if it is not above."""
        if self._sum <= self.bound:
            return 0  # all windows together have a second's worth: however long they are, it is 0
        self._roll(now_ms)
        elapsed_ms = self._elapsed_ms(now_ms)
        if self._sum * 1000 <= self.bound * elapsed_ms:
            return 0
        if self.bound <= 0:
            return self.delay_ms_max
        needed_ms = math.ceil(self._sum * 1000 / self.bound)
        return min(self._began_ms + needed_ms - now_ms, self.delay_ms_max)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing counts any more: a new bucket would be the same."""
        self._roll(now_ms)
        return self._began_ms < 0

    def _elapsed_ms(self, now_ms: int) -> int:
        if self._began_ms < 0:
            return WINDOW_MS
        return max(now_ms - self._began_ms, WINDOW_MS)

    def _roll(self, now_ms: int) -> None:
        """Let the windows end now; those that fall out are forgotten."""
        newest = now_ms // WINDOW_MS
        past = newest - self._newest
        if past <= 0:
            return
        for window in range(self._newest + 1, self._newest + 1 + min(past, WINDOWS)):
            self._amounts[window % WINDOWS] = 0.0
        self._newest = newest
        self._sum = math.fsum(self._amounts)
        if not any(self._amounts):
            self._began_ms = -1
        else:
            self._began_ms = max(self._began_ms, (newest - WINDOWS + 1) * WINDOW_MS)
