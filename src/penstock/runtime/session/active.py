"""Which controller is active, as far as a broker knows, and waiting until that changes.

Two sources: heartbeat answers, of which those with the highest controller epoch count, and refusals
of a controller that was asked and is not active. A refusal may name another one; it holds until the
next heartbeat answer says otherwise.
"""

import asyncio

from penstock.controller.replicated_log import NO_LEADER

_CALM_SHARE = 4


class ActiveTracker:
    """Made and used on its loop."""

    __slots__ = ("_loop", "_news", "active_id", "controller_epoch")

    def __init__(self) -> None:
        self.active_id = NO_LEADER
        """Peer id of the active controller, NO_LEADER while none is known."""
        self.controller_epoch = -1
        """The highest that was heard of, -1 for none."""
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()

    @property
    def news(self) -> asyncio.Future[None]:
        """Done as soon as anything is news; take it before you look."""
        return self._news

    def on_heartbeat_answer(self, active_id: int, controller_epoch: int) -> None:
        """Take what a controller says; of an older epoch it is not believed."""
        is_newer = controller_epoch > self.controller_epoch
        is_known = controller_epoch == self.controller_epoch and active_id != NO_LEADER
        if not (is_newer or is_known):
            return
        self.controller_epoch = controller_epoch
        if active_id != self.active_id:
            self.active_id = active_id
            self.tell_news()

    def on_refusal(self, asked: int, named: int) -> None:
        """Believe a controller that it is not active."""
        if self.active_id == asked:
            self.active_id = named if named != asked else NO_LEADER
            self.tell_news()

    def tell_news(self) -> None:
        """Wake everybody who waits: a session opened or closed, or another one is active."""
        news, self._news = self._news, self._loop.create_future()
        if not news.done():
            news.set_result(None)

    async def wait(self, news: asyncio.Future[None], delay_ms: int) -> None:
        """Wait until `news` is done, from a part of `delay_ms` up to all of it.

        The least wait keeps two controllers that name each other from being asked in a hot loop.
        """
        await asyncio.sleep(delay_ms / 1000 / _CALM_SHARE)
        await asyncio.wait((news,), timeout=delay_ms / 1000)
