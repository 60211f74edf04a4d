"""A token bucket: so many bytes in a second, and not all of them at once.

    take(bytes) ─► how long to wait before the next bytes; what is taken is owed

A large take is not refused: the bucket goes below zero, and the wait is as long as it takes to be
back. So a mean is kept whatever the sizes are.

Source: the token bucket of traffic shaping (Turner 1986); Kafka's cleaner has a `Throttler`
(`log.cleaner.io.max.bytes.per.second`).
"""

BURST_US = 100_000
"""What was not used for so long may be used at once."""


class TokenBucket:
    """Bounds a rate. `bytes_per_second` 0 is no bound. Times are monotonic microseconds."""

    def __init__(self, bytes_per_second: int, now_us: int) -> None:
        self._rate = bytes_per_second
        self._free_at_us = now_us
        """When everything that was taken is paid for."""

    def set_rate(self, bytes_per_second: int, now_us: int) -> None:
        """Change the rate; what is owed is paid at the new one. `take(0, now)` tells how long."""
        owed_us = max(0, self._free_at_us - now_us)
        owed_us = owed_us * self._rate // bytes_per_second if bytes_per_second else 0
        self._free_at_us = now_us + owed_us
        self._rate = bytes_per_second

    def take(self, count: int, now_us: int) -> int:
        """Take `count` bytes; return how long to wait now, in microseconds."""
        if not self._rate:
            return 0
        begin = max(self._free_at_us, now_us - BURST_US)
        self._free_at_us = begin + count * 1_000_000 // self._rate
        return max(0, self._free_at_us - now_us)
