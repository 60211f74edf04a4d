"""Waits for work that tells its result to a callback."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.base.errors import PlatformError


async def outcome(begin: Callable[[Callable[[Any, PlatformError | None], None]], None]) -> Any:
    """Return the result of work that `begin(done)` begins, or raise the error it is told."""
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any, error: PlatformError | None) -> None:
        if told.done():
            return
        if error is None:
            told.set_result(result)
        else:
            told.set_exception(error)

    begin(done)
    return await told
