"""How fast connections are accepted: a second's worth at once, then evenly.

Beyond the rate nobody is refused: the port accepts later, and who connects waits in its backlog.

Source: KIP-402 (the acceptor of a listener waits), KIP-612 (rates of a listener and of the broker;
that of the broker does not hold for the protected listener). Kafka averages over eleven seconds;
here the rate holds from the first second on (ADR 0115).
"""

from penstock.net.admission.own_limits import COUNT_MAX

WAIT_SECONDS_MIN = 0.01
"""A port is not looked at more often than so: what has gathered meanwhile is accepted together."""


class CreationRate:
    """One rate. Times are seconds of any clock that does not go back."""

    __slots__ = ("_left", "_rate", "_since")

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._left = float(rate)
        self._since = now

    def go_by(self, rate: int, now: float) -> None:
        """Have another rate from now on."""
        if rate != self._rate:
            self._refill(now)
            self._rate, self._left = rate, min(self._left, float(rate))

    def wait_seconds(self, now: float) -> float:
        """Return how long to wait before the next connection; 0: it may come now."""
        if self._rate >= COUNT_MAX:
            return 0.0
        self._refill(now)
        if self._left >= 1:
            return 0.0
        return max(WAIT_SECONDS_MIN, (1 - self._left) / self._rate)

    def take(self) -> None:
        """Count a new connection."""
        self._left -= 1

    def _refill(self, now: float) -> None:
        grown = (now - self._since) * self._rate
        self._left, self._since = min(float(self._rate), self._left + grown), now
