"""Pauses of this process itself, such as a suspended machine.

While it stood still no heartbeat was read, so that time is nobody's silence. After a long pause it
may have been replaced as active controller without knowing it yet.

Source: as in liveness.py. It reads no clock: times come as arguments, in ms of one monotonic clock.
"""


class OwnPauses:
    """Noticed by ticks that come late."""

    __slots__ = ("_interval_ms", "_tick_ms", "_timeout_ms", "_woke_ms")

    def __init__(self, timeout_ms: int) -> None:
        """`timeout_ms` is that of the brokers' sessions."""
        self._timeout_ms = timeout_ms
        self._tick_ms = -1
        self._interval_ms = 0
        self._woke_ms = -timeout_ms

    def tick(self, now_ms: int, interval_ms: int) -> int:
        """Note the time, at least every `interval_ms`; a longer gap was a pause of this process.

        Returns how long it was in ms, 0 for none.
        """
        self._interval_ms = interval_ms
        paused_ms = self.since_tick_ms(now_ms)
        if self._is_late(now_ms):
            self._woke_ms = now_ms
        self._tick_ms = now_ms
        return paused_ms

    def since_tick_ms(self, now_ms: int) -> int:
        """Return how much of the time since the last tick this process did not run, or less."""
        if self._tick_ms < 0:
            return 0
        return max(0, now_ms - self._tick_ms - 2 * self._interval_ms)

    def was_asleep(self, now_ms: int) -> bool:
        """Whether this process was suspended within the last timeout, for half of one or longer.

        It may have been replaced as active controller without knowing it yet.
        """
        return self._is_late(now_ms) or now_ms - self._woke_ms < self._timeout_ms

    def _is_late(self, now_ms: int) -> bool:
        return self._tick_ms >= 0 and now_ms - self._tick_ms > self._timeout_ms // 2
