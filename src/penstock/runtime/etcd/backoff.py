"""Exponential pauses between attempts, with jitter so that processes do not act in step."""

import asyncio
import random

FIRST_S = 0.05
LARGEST_S = 1.0


class Backoff:
    """50 ms, doubled each time, at most a second; half of each pause is random."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def reset(self) -> None:
        """Begin again with the shortest pause, after a success."""
        self._next_s = FIRST_S

    async def wait(self) -> None:
        """Pause before the next attempt."""
        seconds = self._next_s
        self._next_s = min(2 * seconds, LARGEST_S)
        await asyncio.sleep(seconds * (0.5 + random.random() / 2))  # noqa: S311  no secret
