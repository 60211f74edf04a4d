"""The active controller as a broker knows it, and waiting for a change of it.

There are two sources: heartbeat answers, of which those with the highest controller epoch count,
and refusals of a controller that is not active. A refusal may name the active one; it holds until
the next heartbeat answer says otherwise.
"""

import asyncio

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.controller.replicated_log import NO_LEADER

_CALM_SHARE = 4


class ActiveTracker:
    """Created and used on its event loop."""

    __slots__ = ("_loop", "_news", "active_id", "controller_epoch")

    def __init__(self) -> None:
        self.active_id = NO_LEADER
        """Peer id of the active controller, NO_LEADER while none is known."""
        self.controller_epoch = ControllerEpoch(-1)
        """Highest controller epoch heard of, -1 for none."""
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()

    @property
    def news(self) -> asyncio.Future[None]:
        """A future that is done at the next change; get it before reading the state."""
        return self._news

    def on_heartbeat_answer(self, active_id: PeerId, controller_epoch: ControllerEpoch) -> None:
        """Process a controller's heartbeat answer; one of an older epoch is ignored."""
        is_newer = controller_epoch > self.controller_epoch
        is_known = controller_epoch == self.controller_epoch and active_id != NO_LEADER
        if not (is_newer or is_known):
            return
        self.controller_epoch = controller_epoch
        if active_id != self.active_id:
            self.active_id = active_id
            self.tell_news()

    def on_refusal(self, asked: PeerId, named: PeerId) -> None:
        """Note that controller `asked` is not active, and which one it has named."""
        if self.active_id == asked:
            self.active_id = named if named != asked else NO_LEADER
            self.tell_news()

    def tell_news(self) -> None:
        """Wake all waiters: a session opened or closed, or another controller is active."""
        news, self._news = self._news, self._loop.create_future()
        if not news.done():
            news.set_result(None)

    async def wait(self, news: asyncio.Future[None], delay_ms: int) -> None:
        """Wait until `news` is done, for at least a part of `delay_ms` and at most all of it.

        The minimum prevents a hot loop when two controllers name each other.
        """
        await asyncio.sleep(delay_ms / 1000 / _CALM_SHARE)
        await asyncio.wait((news,), timeout=delay_ms / 1000)
