"""How often something may happen: so many at once, and so many a second from then on.

Source: a token bucket; ours.
"""


class Allowance:
    """See the module."""

    __slots__ = ("_burst", "_left", "_per_second", "_then_ms")

    def __init__(self, burst: int, per_second: int, now_ms: int) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = float(burst)
        self._then_ms = now_ms

    def take(self, count: int, now_ms: int) -> bool:
        """Count so many; False if they are too many."""
        passed_ms = max(now_ms - self._then_ms, 0)
        self._then_ms = now_ms
        self._left = min(self._left + passed_ms * self._per_second / 1000, self._burst) - count
        return self._left >= 0

    def give(self, count: int) -> None:
        """Allow for so many more, up to the burst."""
        self._left = min(self._left + count, self._burst)
