"""Waiting on the loop until a log's own syncs have ended, so that closing it is clean.

A close waits for the disk on the loop and can not hear how a sync ends that is under way. It would
have to leave the log as a crash does, and the next start replays it.
"""

import asyncio

from penstock.storage.commit_log.set_log import SetLog


async def settle(log: SetLog) -> None:
    """Return when what the log holds is synced, or the log is fenced."""
    settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done() -> None:
        if not settled.done():  # whoever waited may have been cancelled
            settled.set_result(None)

    log.settle(done)
    await settled
