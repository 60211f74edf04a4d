"""Waits for what nobody tells: a condition is looked at again and again, for so long at most."""

import asyncio
import time
from collections.abc import Callable

LOOK_SECONDS = 0.01
UNTIL_SECONDS = 120.0
"""For what hangs, far above what a machine takes that does something else beside."""


def wait_until(
    holds: Callable[[], object], timeout_seconds: float, *, every_seconds: float = LOOK_SECONDS
) -> bool:
    """Look until `holds` returns something true; False when the time is over."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_seconds)
    return True


async def until(
    holds: Callable[[], object],
    timeout_seconds: float = UNTIL_SECONDS,
    *,
    every_seconds: float = 0.001,
) -> None:
    """Look until `holds` returns something true; raises TimeoutError.

    With `every_seconds=0` each turn of the loop has a look.
    """
    async with asyncio.timeout(timeout_seconds):
        while not holds():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(every_seconds)
