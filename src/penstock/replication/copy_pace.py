"""How fast a master copies its logs to members that are not in step.

    sent to who is not in step ─► counted ─► how long until the next bytes may go

One rate holds for all copies of a broker together. What members in step are sent is neither counted
nor held up. Bytes are counted when they are sent, so a message of any size is sent whole, and the
next one waits the longer: the mean is kept.

Source: KIP-73 (`leader.replication.throttled.rate`). It knows neither members nor links, and times
are the clock's.
"""

from penstock.base.ports import Clock
from penstock.base.token_bucket import TokenBucket

_US_PER_MS = 1_000


class CopyPace:
    """The rate of one broker's copies, and what was copied. A rate of 0 is no bound."""

    def __init__(self, bytes_per_second: int, clock: Clock) -> None:
        self.bytes_per_second = bytes_per_second
        self.copied_bytes = 0
        """Sent so far to members that were not in step, with and without a bound."""
        self._clock = clock
        self._bucket = TokenBucket(bytes_per_second, self._now_us())

    def use_rate(self, bytes_per_second: int) -> None:
        """Change the rate; what was sent too early is made up for at the new one."""
        if bytes_per_second != self.bytes_per_second:
            self.bytes_per_second = bytes_per_second
            self._bucket.set_rate(bytes_per_second, self._now_us())

    def sent(self, count: int) -> None:
        """Count bytes that have been sent."""
        assert count >= 0, count
        self.copied_bytes += count
        self._bucket.take(count, self._now_us())

    def wait_ms(self) -> int:
        """Return how long no bytes may be sent, rounded up; 0 if they may be sent now."""
        return -(-self._bucket.take(0, self._now_us()) // _US_PER_MS)

    def _now_us(self) -> int:
        return self._clock.monotonic_ms() * _US_PER_MS
