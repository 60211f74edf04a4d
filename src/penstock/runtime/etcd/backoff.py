"""Waits between attempts that grow, with chance in them so that processes do not come in step."""

import asyncio
import random

FIRST_S = 0.05
LARGEST_S = 1.0


class Backoff:
    """50 ms, then twice as long each time, a second at most; half of each is chance."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def reset(self) -> None:
        """The last attempt succeeded."""
        self._next_s = FIRST_S

    async def wait(self) -> None:
        """Wait for the next attempt."""
        seconds = self._next_s
        self._next_s = min(2 * seconds, LARGEST_S)
        await asyncio.sleep(seconds * (0.5 + random.random() / 2))  # noqa: S311  no secret
