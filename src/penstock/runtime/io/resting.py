"""A pause that an event ends early.

Source: none.
"""

import asyncio


async def rest(changed: asyncio.Event, pause_ms: int) -> None:
    """Wait for `changed`, which is cleared first, for `pause_ms` at most."""
    changed.clear()
    try:
        async with asyncio.timeout(pause_ms / 1_000):
            await changed.wait()
    except TimeoutError:
        return
