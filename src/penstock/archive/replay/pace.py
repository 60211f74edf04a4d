"""How many records in a second: a wait before each portion of them.

Source: docs/adr/0164.
"""

import time
from collections.abc import Callable


class Pace:
    """Spreads records over time. Time that was lost elsewhere is not made up for."""

    def __init__(
        self,
        per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """None: as fast as it goes."""
        self._per_second, self._clock, self._sleep = per_second, clock, sleep
        self._next_at = clock()

    def portion(self, most: int) -> int:
        """Return how many records are to be written at once, of `most`: a second's at the most."""
        return most if self._per_second is None else min(most, max(1, int(self._per_second)))

    def wait(self, count: int) -> None:
        """Wait until `count` records may be written."""
        if self._per_second is None:
            return
        now = self._clock()
        if now < self._next_at:
            self._sleep(self._next_at - now)
        self._next_at = max(now, self._next_at) + count / self._per_second
