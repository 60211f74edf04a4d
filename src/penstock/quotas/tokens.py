"""Tokens of controller mutations: a burst is taken, and paid for by the wait after it.

    tokens  ─► filled at the quota, up to eleven seconds' worth
            ─► taken while there are none below zero; one request may take them far below

Source: KIP-599; Kafka `TokenBucket`, `StrictControllerMutationQuota`.
"""

import math
from typing import Final

from penstock.quotas.windows import DELAY_MS_MAX, WINDOW_MS, WINDOWS

BURST_SECONDS: Final = WINDOWS * WINDOW_MS // 1000


class TokenBucket:
    """Tokens of one bucket, one for each partition. Times are monotonic milliseconds."""

    __slots__ = ("_at_ms", "_tokens", "bound")

    def __init__(self, bound: float) -> None:
        """`bound` is the quota, in tokens a second; it may change."""
        self.bound = bound
        self._tokens = bound * BURST_SECONDS
        self._at_ms = -1

    def take(self, count: float, now_ms: int) -> bool:
        """Take tokens if none are owed; say if they were taken."""
        if self.tokens(now_ms) < 0:
            return False
        self._tokens -= count
        return True

    def owe(self, count: float, now_ms: int) -> None:
        """Take tokens whatever there is: an older client is delayed and not refused."""
        self._tokens = self.tokens(now_ms) - count

    def delay_ms(self, now_ms: int) -> int:
        """Return after which time nothing is owed any more."""
        owed = -self.tokens(now_ms)
        if owed <= 0:
            return 0
        return min(max(1, math.ceil(owed * 1000 / self.bound)), DELAY_MS_MAX)

    def is_idle(self, now_ms: int) -> bool:
        """Whether it is full: a new bucket would be the same."""
        return self.tokens(now_ms) >= self.bound * BURST_SECONDS

    def tokens(self, now_ms: int) -> float:
        """Return how many there are now; below zero they are owed."""
        passed_ms = 0 if self._at_ms < 0 else max(0, now_ms - self._at_ms)
        self._at_ms = now_ms
        most = self.bound * BURST_SECONDS
        self._tokens = min(most, self._tokens + passed_ms * self.bound / 1000)
        return self._tokens
