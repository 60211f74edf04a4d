"""Waits for what nobody tells: a condition is looked at again and again, for so long at most."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable

LOOK_SECONDS = 0.01
UNTIL_SECONDS = 240.0
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


def signal_until_it_ends(
    process: subprocess.Popen[bytes], number: signal.Signals, timeout_seconds: float
) -> int:
    """Send this signal again and again until the process ends; return its exit code.

    Some of them come in its last moments, when its loop is closed already.
    """
    deadline = time.monotonic() + timeout_seconds
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(number)
        time.sleep(0.0005)
    return process.wait(0)


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
