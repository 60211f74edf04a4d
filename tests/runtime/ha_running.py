"""Runs a scenario that takes longer than those over a single link."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import uvloop

SECONDS = 120.0


def run_long(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario to its end, at most for a minute."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await scenario

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())
