"""How many messages a second came in and went out lately: over 10 s, a minute and ten minutes.

    counters ─► a sample every 10 s, sixty of them ─► differences by the time between

Source: ours; RocketMQ `StoreStatsService.getPutTps` has the same three windows.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

SAMPLE_MS: Final = 10_000
WINDOWS_MS: Final = (10_000, 60_000, 600_000)
_SAMPLES: Final = WINDOWS_MS[-1] // SAMPLE_MS + 1

Counted = tuple[int, int]
"""Messages that came in, and that went out, ever."""


class _Sample(NamedTuple):
    at_ms: int
    counted: Counted


class Rates:
    """See the module; one for each front. Times are monotonic."""

    def __init__(self, now_ms: int, counted: Counted) -> None:
        self.begun_ms = now_ms
        self._samples = deque([_Sample(now_ms, counted)], maxlen=_SAMPLES)

    def note(self, now_ms: int, counted: Counted) -> None:
        """Take a sample, if it is time for one."""
        if now_ms - self._samples[-1].at_ms >= SAMPLE_MS:
            self._samples.append(_Sample(now_ms, counted))

    def of(self, now_ms: int, counted: Counted) -> Sequence[str]:
        """Return the rates of what came in and of what went out: three numbers each, as a text."""
        begins = [self._begin(now_ms - window_ms) for window_ms in WINDOWS_MS]
        told = []
        for index in range(len(counted)):
            numbers = [
                (counted[index] - begin.counted[index]) * 1_000 / max(now_ms - begin.at_ms, 1_000)
                for begin in begins
            ]
            told.append(" ".join(f"{number:.2f}" for number in numbers))
        return told

    def _begin(self, since_ms: int) -> _Sample:
        """Return the newest sample that is as old; the oldest, if none is."""
        older = (one for one in reversed(self._samples) if one.at_ms <= since_ms)
        return next(older, self._samples[0])
