"""Waiting for shares: until one changes, is loaded, or its partition has more records.

Source: Kafka `DelayedShareFetch`.
"""

import asyncio
from contextlib import suppress

from penstock.broker.broker import Broker
from penstock.shares.messages import Unavailable
from penstock.shares.state import ShareKey

READY_S = 5.0
"""How long shares may take to be placed and loaded: clients ask again."""


class ShareWait:
    """Somebody who waits: a FetchWaiter of partitions, and a Watcher of shares."""

    __slots__ = ("_news",)

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def on_share(self) -> None:
        """As in Watcher."""
        self._news.set()

    def on_readable(self) -> int:
        """As in FetchWaiter."""
        return self.on_changed()

    def on_changed(self) -> int:
        """As in FetchWaiter."""
        self._news.set()
        return 1

    def clear(self) -> None:
        """Forget what was told so far."""
        self._news.clear()

    async def until(self, seconds: float) -> bool:
        """Wait so long for news; return whether there are some."""
        if seconds > 0 and not self._news.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        return self._news.is_set()


async def ready(broker: Broker, key: ShareKey, deadline: float | None = None) -> Unavailable | None:
    """Have the place of a share made, and loaded; return why it can not be used, if so.

    `deadline`: a time of the loop's clock, READY_S from now unless told; LOADING if it is over.
    """
    loop = asyncio.get_running_loop()
    if deadline is None:
        deadline = loop.time() + READY_S
    why_not = await broker.share_places.ensure(key, deadline)
    if why_not is not None:
        return why_not
    wait, watchers = ShareWait(), broker.shares.watchers
    try:
        while True:
            wait.clear()
            watchers.watch(key, wait)
            found = broker.shares.describe(key)
            if found is not Unavailable.LOADING:
                return found if isinstance(found, Unavailable) else None
            async with broker.long_places.away():
                if not await wait.until(deadline - loop.time()):
                    return Unavailable.LOADING
    finally:
        watchers.leave(key, wait)
