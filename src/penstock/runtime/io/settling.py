"""Waiting on the loop for the syncs of a log in progress, so that it is closed cleanly.

A close blocks the loop on the disk and cannot learn how a sync in progress ends. It would have to
leave the log as after a crash, and the next start would replay it.
"""

import asyncio

from penstock.storage.commit_log.set_log import SetLog


async def settle(log: SetLog) -> None:
    """Return when the log is synced up to its end, or fenced."""
    settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done() -> None:
        if not settled.done():  # the waiting task may have been cancelled
            settled.set_result(None)

    log.settle(done)
    await settled
